import type postgres from 'postgres'
import { uuid7 } from '../../../core/claim/uuid7.ts'

/**
 * The yardstick: the same rows in the same tables, by bare INSERT … SELECT FROM unnest statements, prepared before the
 * clock runs. No stream, no look-up, no settling; one transaction a batch, as many at once as the drain has.
 */

interface Batch {
  size: number
  users: string
  requests: string
  coupons: string
  ledgers: string
  ms: string
  seqs: string
  ones: string
  keys: string
  params: string
  tokens: string
  instants: string
  entries: string
  entryFields: string
}

const validTo = () => new Date(Date.now() + 30 * 86_400_000).toISOString()
const literal = (values: readonly (string | number)[]) => `{${values.join(',')}}`

export function prepareRaw(count: number, size: number): Batch[] {
  const batches: Batch[] = []
  for (let from = 0; from < count; from += size) {
    const rows = Array.from({ length: Math.min(size, count - from) }, (_, i) => from + i)
    const now = Date.now()
    const of = (make: (i: number) => string | number) => literal(rows.map(make))
    batches.push({
      size: rows.length,
      users: of((i) => `user-${i}`),
      requests: of(() => uuid7(now)),
      coupons: of(() => uuid7(now)),
      ledgers: of(() => uuid7(now)),
      ms: of(() => now),
      seqs: of((i) => i % 64),
      ones: of(() => 1),
      keys: of((i) => `key${String(i).padStart(6, '0')}`),
      params: of(() => 'para'),
      tokens: of((i) => `tok${String(i).padStart(6, '0')}`),
      instants: of(() => `"${new Date(now).toISOString()}"`),
      ...entriesOf(rows, now),
    })
  }
  return batches
}

/** As the request log keeps them: an entry for each 64 claims. */
function entriesOf(rows: readonly number[], now: number): Pick<Batch, 'entries' | 'entryFields'> {
  const entries: string[] = []
  const fields: string[] = []
  for (let at = 0; at < rows.length; at += 64) {
    entries.push(`${now}-${at}`)
    const pairs = rows.slice(at, at + 64).map((i) => `user-${i},${'r'.repeat(43)}A`)
    fields.push(`"{v,1:1,${pairs.join(',')}}"`)
  }
  return { entries: literal(entries), entryFields: literal(fields) }
}

/** @returns ms that it took. */
export async function runRaw(
  sql: postgres.Sql,
  campaignId: string,
  batches: readonly Batch[],
  atOnce: number,
): Promise<number> {
  const started = performance.now()
  let next = 0
  const worker = async () => {
    for (let batch = batches[next++]; batch !== undefined; batch = batches[next++])
      await insertRaw(sql, campaignId, batch)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return performance.now() - started
}

async function insertRaw(sql: postgres.Sql, campaignId: string, b: Batch): Promise<void> {
  const now = new Date().toISOString()
  const to = validTo()
  await sql.begin((tx) =>
    Promise.all([
      tx`
      INSERT INTO claims (user_id, request_id, campaign_id, bucket, rule_version, status, coupon_id, entry_ms, entry_seq,
        key_fingerprint, params_fingerprint, token_id, accepted_at, settled_at)
      SELECT u, r, ${campaignId}, 0, 1, 'DELIVERED', c, m, s, k, p, t, a, ${now}::timestamptz
      FROM unnest(${b.users}::text[], ${b.requests}::uuid[], ${b.coupons}::uuid[], ${b.ms}::bigint[],
        ${b.seqs}::bigint[], ${b.keys}::text[], ${b.params}::text[], ${b.tokens}::text[],
        ${b.instants}::timestamptz[]) AS i(u, r, c, m, s, k, p, t, a)`,
      tx`
      INSERT INTO coupons (user_id, coupon_id, campaign_id, claim_seq, request_id, rule_version, valid_from, valid_to,
        state, issued_at, updated_at)
      SELECT u, c, ${campaignId}, n, r, 1, ${now}::timestamptz, ${to}::timestamptz, 'AVAILABLE', ${now}::timestamptz,
        ${now}::timestamptz
      FROM unnest(${b.users}::text[], ${b.coupons}::uuid[], ${b.ones}::integer[], ${b.requests}::uuid[])
        AS i(u, c, n, r)`,
      tx`
      INSERT INTO ledger (user_id, ledger_id, campaign_id, request_id, coupon_id, kind, to_state, actor, at)
      SELECT u, l, ${campaignId}, r, c, 'coupon.issued', 'AVAILABLE', 'drain', ${now}::timestamptz
      FROM unnest(${b.users}::text[], ${b.ledgers}::uuid[], ${b.requests}::uuid[], ${b.coupons}::uuid[])
        AS i(u, l, r, c)`,
      tx`
      INSERT INTO outbox (user_id, request_id, type, payload, created_at)
      SELECT u, r, 'claim.delivered', jsonb_build_object('request_id', r, 'status', 'DELIVERED', 'coupon_id', c,
        'campaign_id', ${campaignId}::text, 'valid_from', ${now}::text, 'valid_until', ${to}::text),
        ${now}::timestamptz
      FROM unnest(${b.users}::text[], ${b.requests}::uuid[], ${b.coupons}::uuid[]) AS i(u, r, c)`,
      tx`
      INSERT INTO request_log (accepted_at, campaign_id, bucket, entry_id, fields)
      SELECT ${now}::timestamptz, ${campaignId}, 0, e, f::text[]
      FROM unnest(${b.entries}::text[], ${b.entryFields}::text[]) AS i(e, f)`,
      tx`UPDATE campaign_stock SET issued = issued + ${b.size}::bigint
      WHERE campaign_id = ${campaignId} AND issued + ${b.size}::bigint <= quota`,
    ]),
  )
}
