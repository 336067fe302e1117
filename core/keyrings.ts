import { createHmac } from 'node:crypto'
import { type Keyring, parseKeyring } from '../schema/sealed.ts'
import { ConfigurationError, type CoreEnv } from './env.ts'

/** Keys of the signed texts of schema/tokens.ts, shared with the edge. */
export interface Keyrings {
  readonly claimToken: Keyring
  /** Receipts and tickets. */
  readonly receipt: Keyring
  readonly campaignId: Keyring
  /** Assertions: what the edge vouches for. */
  readonly edgeCore: Keyring
}

export const macFor = (secret: string) => (text: string) =>
  createHmac('sha256', secret).update(text).digest('base64url')

/** @throws ConfigurationError that names the variable, never the secret. */
export function makeKeyrings(keys: CoreEnv['keys']): Keyrings {
  const ring = (name: string, spec: string) => {
    try {
      return parseKeyring(name, spec, macFor)
    } catch (error) {
      throw new ConfigurationError((error as Error).message)
    }
  }
  return {
    claimToken: ring('CLAIM_TOKEN_KEYS', keys.claimToken),
    receipt: ring('RECEIPT_KEYS', keys.receipt),
    campaignId: ring('CAMPAIGN_ID_KEYS', keys.campaignId),
    edgeCore: ring('EDGE_CORE_KEYS', keys.edgeCore),
  }
}
