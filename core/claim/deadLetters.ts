import type { Bucket } from '../../lua/keys.ts'
import type { Pool } from '../db.ts'
import { claimFields, type RawEntry } from './batch.ts'
import { arrayOf } from './issue.sql.ts'
import { uuid7 } from './uuid7.ts'

/** A claim, or for position −1 a whole entry, that is set aside with its original fields, to be replayed. */
export interface DeadLetter {
  entry: RawEntry
  position: number
  cause: string
}

/** Stores what can't be issued, each once (IS7, case-H15). */
export async function bury(
  pool: Pick<Pool, 'transaction'>,
  bucket: Bucket,
  letters: readonly DeadLetter[],
  nowMs: number,
): Promise<void> {
  if (letters.length === 0) return
  const now = new Date(nowMs).toISOString()
  await pool.transaction((tx) =>
    Promise.all(
      letters.map(
        ({ entry, position, cause }) => tx`
          INSERT INTO dead_letters
            (dead_letter_id, campaign_id, bucket, entry_id, position, cause, fields, created_at)
          VALUES (${uuid7(nowMs)}, ${bucket.campaignId}, ${bucket.bucket}, ${entry.id}, ${position},
            ${storable(cause)}, ${arrayOf(claimFields(entry, position).map(storable))}::text[], ${now}::timestamptz)
          ON CONFLICT (campaign_id, bucket, entry_id, position) DO NOTHING`,
      ),
    ),
  )
}

/** Postgres has no text with a NUL, and the burial must not fail for what made the claim fail. */
function storable(text: string): string {
  return text.replaceAll('\0', '␀')
}
