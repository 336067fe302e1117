import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { timeOfRequestId } from '../../schema/acceptance.ts'
import { type Keyring, parseKeyring } from '../../schema/sealed.ts'
import { unsealReceipt } from '../../schema/tokens.ts'
import { macFor } from '../keyrings.ts'
import { OpsError } from './errors.ts'

/** What a genuine receipt proves; times are RFC 3339 UTC. */
export interface ReceiptProof {
  campaign_id: string
  request_id: string
  user_id: string
  accepted_at: string
}

/**
 * Reads a receipt offline: that it is ours, not what became of its claim.
 * The keys are those of RECEIPT_KEYS in `env`; else those that the local stack keeps in its folder, `home`.
 * @throws OpsError `refused` when no key of the ring has signed exactly this text, `usage` without a ring.
 */
export function verifyReceipt(
  text: string | undefined,
  { env, home }: { env: Readonly<Record<string, string | undefined>>; home: string },
): ReceiptProof {
  if (!text) throw new OpsError('usage', 'Give --receipt: the whole text, as the client got it.')
  const receipt = unsealReceipt(text, ringOf(env['RECEIPT_KEYS'] || localKeys(join(home, 'keys.json'))))
  if (receipt === undefined)
    throw new OpsError(
      'refused',
      'The receipt is not genuine: altered, cut, of another kind, or signed by a key that is not in the ring.',
    )
  const { campaignId, requestId, userId } = receipt
  return {
    campaign_id: campaignId,
    request_id: requestId,
    user_id: userId,
    accepted_at: new Date(timeOfRequestId(requestId)).toISOString(),
  }
}

function ringOf(keys: string): Keyring {
  try {
    return parseKeyring('RECEIPT_KEYS', keys, macFor)
  } catch (error) {
    throw new OpsError('usage', (error as Error).message)
  }
}

function localKeys(keysFile: string): string {
  try {
    const { receiptKeys } = JSON.parse(readFileSync(keysFile, 'utf8')) as { receiptKeys?: string }
    if (receiptKeys) return receiptKeys
  } catch {
    // Told below: there is no local stack.
  }
  throw new OpsError('usage', `Give RECEIPT_KEYS: there are no local stack's keys at ${keysFile}.`)
}
