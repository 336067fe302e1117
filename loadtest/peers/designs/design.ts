import type { Redis } from 'ioredis'
import type postgres from 'postgres'

/**
 * A coupon service as others build it: a front that answers claims, and, where the design has one, a consumer that
 * writes the coupons. Each runs as a process of its own (`loadtest/peers/service.ts`), on the Redis and the Postgres
 * that ours runs on too. Every user may have one coupon.
 */
export interface Design {
  readonly name: string
  /** The design in a sentence, with its source. */
  readonly about: string
  /** Which store is cut off in the third kind of kill. */
  readonly store: 'redis' | 'postgres'
  /** Makes it as before an opening, with `quota` coupons; nothing is left of an earlier one. */
  prepare(stores: Stores, quota: number): Promise<void>
  /** A claim of a user under an idempotency key. @throws when a store is away: the client hears 503 */
  claim(stores: Stores, userId: string, key: string): Promise<PeerAnswer>
  /** Consumes until `stopped` says so. @throws when a store is away: it is called again. */
  readonly consume?: (stores: Stores, stopped: () => boolean) => Promise<void>
  /** Claims that were accepted and that the consumer has not finished. */
  pending(stores: Stores): Promise<number>
  /** What the design believes to be left. */
  remaining(stores: Stores): Promise<number>
}

export interface Stores {
  readonly redis: Redis
  /** For reads that block. */
  readonly blocking: Redis
  readonly sql: postgres.Sql
}

/** `ACCEPTED` is a yes, also where it is one to a repetition; `BUSY` asks to come again. */
export type PeerAnswer = 'ACCEPTED' | 'SOLD_OUT' | 'LIMIT_REACHED' | 'BUSY'

/** All designs keep their coupons in one table, with the keys that each of them has. */
export async function makeCoupons(sql: postgres.Sql, constraint: string): Promise<void> {
  await sql.unsafe('DROP TABLE IF EXISTS peer_coupons')
  await sql.unsafe(
    `CREATE TABLE peer_coupons (request_id text NOT NULL, user_id text NOT NULL, ${constraint})`,
  )
}
