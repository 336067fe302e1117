import { z } from '@hono/zod-openapi'
import { benefitShape } from '../../schema/rules.ts'
import { type CouponState, couponMachine } from '../../schema/states.ts'
import type { Client } from '../db.ts'
import type { Deps } from '../deps.ts'
import { decodeCursor, encodeCursor, pageOf } from '../http/pages.ts'

/** States in which a user sees a coupon. */
export const walletStates = couponMachine.states.filter((state) => state !== 'ISSUING')

export const walletItemShape = z
  .object({
    coupon_id: z.string(),
    campaign_id: z.string(),
    name: z.string(),
    state: z.enum(walletStates as [CouponState, ...CouponState[]]),
    benefit: benefitShape,
    rule_version: z.int().openapi({ description: 'Its rules for ever, whatever the campaign’s become.' }),
    valid_from: z.iso.datetime(),
    valid_to: z.iso.datetime().openapi({ description: 'From this instant on it is no longer valid.' }),
    issued_at: z.iso.datetime(),
    version: z.int().openapi({ description: 'Of two that a client has, the higher one holds.' }),
  })
  .openapi('WalletCoupon')
export type WalletItem = z.infer<typeof walletItemShape>

interface Row {
  coupon_id: string
  campaign_id: string
  name: string
  state: CouponState
  benefit: WalletItem['benefit']
  rule_version: number
  valid_from: Date
  valid_to: Date
  issued_at: Date
  version: number
  changed_at: Date
}

export interface WalletQuery {
  userId: string
  status?: CouponState | undefined
  limit: number
  cursor?: string | undefined
  /** `sync` of an earlier answer: only what changed since then, oldest change first. */
  since?: string | undefined
}

/**
 * Changes are stamped before they commit: looking so far back misses none, and may show one twice, with its version.
 */
const overlapMs = 30_000

/**
 * A page of a user's coupons, newest first, by (issued_at, coupon_id): coupons issued in one instant are neither
 * skipped nor shown twice (case-L11). With `since`, what changed, by (changed_at, coupon_id). @throws Refused INVALID_REQUEST on a cursor that isn't ours.
 */
export async function readWallet({ db, clock }: Pick<Deps, 'db' | 'clock'>, query: WalletQuery) {
  const { sql } = db.query
  const now = new Date(clock())
  const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
  const since =
    query.since === undefined ? undefined : new Date(decodeCursor(query.since).at.getTime() - overlapMs)
  // A coupon is expired from its very instant on; the sweep that writes it down comes a little later.
  const rows = await sql<Row[]>`
    SELECT * FROM (
      SELECT k.coupon_id, k.campaign_id, c.name, r.rules->'benefit' AS benefit, k.rule_version, k.valid_from,
        k.valid_to, date_trunc('milliseconds', k.issued_at) AS issued_at, k.version,
        date_trunc('milliseconds', k.updated_at) AS changed_at,
        CASE WHEN k.state = 'AVAILABLE' AND k.valid_to <= ${now} THEN 'EXPIRED' ELSE k.state END AS state
      FROM coupons k
      JOIN campaigns c ON c.campaign_id = k.campaign_id
      JOIN rule_versions r ON r.campaign_id = k.campaign_id AND r.rule_version = k.rule_version
      WHERE k.user_id = ${query.userId} AND k.state <> 'ISSUING'
    ) AS shown
    WHERE true
      ${query.status === undefined ? sql`` : sql`AND state = ${query.status}`}
      ${since === undefined ? sql`` : sql`AND changed_at >= ${since}`}
      ${after === undefined ? sql`` : afterOf(sql, after, since !== undefined)}
    ${since === undefined ? sql`ORDER BY issued_at DESC, coupon_id::text DESC` : sql`ORDER BY changed_at, coupon_id::text`}
    LIMIT ${query.limit + 1}`
  const cursorOf = (row: Row) =>
    encodeCursor(since === undefined ? row.issued_at : row.changed_at, row.coupon_id)
  return { ...pageOf(rows, query.limit, itemOf, cursorOf), sync: encodeCursor(now, 'sync') }
}

function afterOf(sql: Client, { at, id }: { at: Date; id: string }, changes: boolean) {
  return changes
    ? sql`AND (changed_at, coupon_id::text) > (${at}, ${id})`
    : sql`AND (issued_at, coupon_id::text) < (${at}, ${id})`
}

function itemOf({ changed_at: _, ...row }: Row): WalletItem {
  return {
    ...row,
    valid_from: row.valid_from.toISOString(),
    valid_to: row.valid_to.toISOString(),
    issued_at: row.issued_at.toISOString(),
  }
}
