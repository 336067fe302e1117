import type { Bucket } from '../../lua/keys.ts'
import type { LoggedClaim } from '../claim/batch.ts'
import { arrayOf, type Tx } from '../claim/issue.sql.ts'

/**
 * Keeps the log's entries in the transaction that issues them (IS11): one row an entry, with the fields of the claims
 * that this transaction decides. An entry that was split has a row a part; no claim stands twice.
 */
export function insertRequestLog(tx: Tx, bucket: Bucket, claims: readonly LoggedClaim[]) {
  const kept = fieldsByEntry(claims)
  return tx`
    INSERT INTO request_log (accepted_at, campaign_id, bucket, entry_id, fields)
    SELECT to_timestamp(ms / 1000.0), ${bucket.campaignId}, ${bucket.bucket}::integer, entry_id, fields::text[]
    FROM unnest(
      ${arrayOf(kept.map(({ ms }) => ms))}::bigint[],
      ${arrayOf(kept.map(({ entryId }) => entryId))}::text[],
      ${arrayOf(kept.map(({ fields }) => literalOf(fields)))}::text[]
    ) AS i(ms, entry_id, fields)`
}

/** Most fields need no quotes, which the array around would have to escape once more. */
function literalOf(fields: readonly string[]): string {
  return fields.every((field) => plain.test(field)) ? `{${fields.join(',')}}` : arrayOf(fields)
}
/** Not of letters only: NULL without quotes is no text. */
const plain = /^[\w:-]*[\d_:-][\w:-]*$|^[vb]$/

interface KeptEntry {
  entryId: string
  ms: number
  fields: readonly string[]
}

/** Claims come in the order of their entries. */
function fieldsByEntry(claims: readonly LoggedClaim[]): KeptEntry[] {
  const kept: KeptEntry[] = []
  for (let from = 0; from < claims.length; ) {
    const { entry, entryMs } = claims[from]!
    let to = from + 1
    while (to < claims.length && claims[to]!.entry === entry) to++
    const whole = 2 * (to - from) + 2 === entry.fields.length
    const fields = whole ? entry.fields : partOf(entry.fields, claims.slice(from, to))
    kept.push({ entryId: entry.id, ms: entryMs, fields })
    from = to
  }
  return kept
}

function partOf(fields: readonly string[], claims: readonly LoggedClaim[]): string[] {
  const pair = (position: number) => [fields[2 + 2 * position]!, fields[3 + 2 * position]!]
  return [fields[0]!, fields[1]!, ...claims.flatMap(({ position }) => pair(position))]
}
