import type { Bucket } from '../../lua/keys.ts'
import type { RecordState } from '../../schema/acceptance.ts'
import { packRecord, unpackRecord } from '../../schema/acceptance.ts'
import type { ClaimState, CompensationState } from '../../schema/states.ts'
import type { Tx } from '../claim/issue.sql.ts'

/** What the ledger says of one bucket: enough to make its gate and its users' records again. */
export interface BucketLedger {
  /** Acceptances that took stock. */
  accepted: number
  /** Of them, those that ended as a coupon or a rejection. */
  settled: number
  /** Rejected, and the stock was given back. */
  returned: number
  /** By user: all packed records, oldest first. */
  records: Map<string, string>
  /** Id of the last log entry that the ledger knows. */
  watermark: string
}

interface ClaimRow {
  user_id: string
  request_id: string
  status: ClaimState
  key_fingerprint: string
  params_fingerprint: string
  token_id: string
  entry_ms: number
  entry_seq: number
  owed: CompensationState | null
}

/** The driver hands rows over in portions of this size: a bucket's are never all there twice. */
const portion = 5_000

/**
 * Reads a bucket's claims, compensations and dead letters. A claim that was rejected by its receipt (entry_seq −1)
 * took no stock. A ballot's entries take none either.
 */
export async function readBucketLedger(tx: Tx, bucket: Bucket, ballot: boolean): Promise<BucketLedger> {
  const found: BucketLedger = { accepted: 0, settled: 0, returned: 0, records: new Map(), watermark: '0-0' }
  let [ms, seq] = [0, 0]
  const rows = tx<ClaimRow[]>`
    SELECT c.user_id, c.request_id, c.status, c.key_fingerprint, c.params_fingerprint, c.token_id, c.entry_ms,
      c.entry_seq, k.state AS owed
    FROM claims c LEFT JOIN compensations k ON k.user_id = c.user_id AND k.request_id = c.request_id
    WHERE c.campaign_id = ${bucket.campaignId} AND c.bucket = ${bucket.bucket} AND c.entry_seq >= 0
    ORDER BY c.request_id`
  for await (const part of rows.cursor(portion))
    for (const row of part) {
      const state = ballot ? ballotLetterOf(row) : letterOf(row)
      add(found, row.user_id, packRow(row, state))
      if (!ballot) count(found, state)
      if (row.entry_ms > ms || (row.entry_ms === ms && row.entry_seq > seq))
        [ms, seq] = [row.entry_ms, row.entry_seq]
    }
  found.watermark = `${ms}-${seq}`
  await addDeadLetters(tx, bucket, ballot, found)
  return found
}

function count(found: BucketLedger, state: RecordState): void {
  found.accepted += 1
  if (state !== 'V') found.settled += 1
  if (state === 'R') found.returned += 1
}

function add({ records }: BucketLedger, userId: string, record: string): void {
  records.set(userId, (records.get(userId) ?? '') + record)
}

/** Held until someone decided: a claim in review, and whatever else is no coupon and no rejection yet. */
function letterOf({ status, owed }: ClaimRow): RecordState {
  if (status === 'DELIVERED') return 'D'
  if (status !== 'REJECTED') return 'V'
  return isReturned(owed) ? 'R' : 'X'
}

function ballotLetterOf({ status, owed }: ClaimRow): RecordState {
  if (status === 'DELIVERED') return 'D'
  if (status === 'REJECTED') return isReturned(owed) ? 'R' : 'X'
  return status === 'REVIEW' ? 'V' : 'B'
}

function isReturned(owed: CompensationState | null): boolean {
  return owed === 'APPLIED' || owed === 'CLOSED'
}

function packRow(row: ClaimRow, state: RecordState): string {
  return packRecord({
    requestId: row.request_id,
    keyFingerprint: row.key_fingerprint,
    paramsFingerprint: row.params_fingerprint,
    tokenId: row.token_id,
    state,
  })
}

/** Set aside, and their stock with them, until an operator decides. What can't be read is only counted. */
async function addDeadLetters(
  tx: Tx,
  { campaignId, bucket }: Bucket,
  ballot: boolean,
  found: BucketLedger,
): Promise<void> {
  const letters = await tx<{ fields: string[] }[]>`
    SELECT fields FROM dead_letters
    WHERE campaign_id = ${campaignId} AND bucket = ${bucket} AND state <> 'REPLAYED' ORDER BY entry_id, position`
  for (const { fields } of letters)
    for (let at = 2; at + 1 < fields.length; at += 2) {
      if (!ballot) found.accepted += 1
      const held = heldRecord(fields[at + 1]!)
      if (held !== undefined) add(found, fields[at]!, held)
    }
}

function heldRecord(record: string): string | undefined {
  try {
    return packRecord({ ...unpackRecord(record), state: 'V' })
  } catch {
    return undefined
  }
}
