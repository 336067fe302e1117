import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'

/** The statements of delivering. A delivery's row ends with it: the user's stream and wallet are the record. */

export interface Due {
  user_id: string
  subscription_id: string
  event_id: number
  body: string
  /** This attempt's number, from 1. */
  attempt: number
  give_up_at: Date
  /** Null with the keys: the subscription is no more, or has expired. */
  endpoint: string | null
  p256dh: string | null
  auth: string | null
}

/** Takes what is due; taking moves the next attempt past the lease, so that one process has it. */
export async function takeDue({ db, clock }: Pick<Deps, 'db' | 'clock'>, free: number): Promise<Due[]> {
  const now = new Date(clock())
  const lease = new Date(now.getTime() + limits.deliveryLeaseMs)
  return db.admin.sql<Due[]>`
    WITH due AS (
      SELECT user_id, subscription_id, event_id FROM push_deliveries WHERE next_attempt_at <= ${now}
      ORDER BY next_attempt_at LIMIT ${free}::int FOR UPDATE SKIP LOCKED
    )
    UPDATE push_deliveries d SET attempts = d.attempts + 1, next_attempt_at = ${lease}
    FROM due LEFT JOIN push_subscriptions s ON s.user_id = due.user_id
      AND s.subscription_id = due.subscription_id AND (s.expires_at IS NULL OR s.expires_at > ${now})
    WHERE d.user_id = due.user_id AND d.subscription_id = due.subscription_id AND d.event_id = due.event_id
    RETURNING d.user_id, d.subscription_id, d.event_id, d.body, d.attempts AS attempt, d.give_up_at, s.endpoint,
      s.p256dh, s.auth`
}

/** Delivered, or given up. */
export async function forgetDelivery({ db }: Pick<Deps, 'db'>, due: Due): Promise<void> {
  await db.admin.sql`
    DELETE FROM push_deliveries
    WHERE user_id = ${due.user_id} AND subscription_id = ${due.subscription_id} AND event_id = ${due.event_id}`
}

export async function postpone({ db }: Pick<Deps, 'db'>, due: Due, untilMs: number): Promise<void> {
  await db.admin.sql`
    UPDATE push_deliveries SET next_attempt_at = ${new Date(untilMs)}
    WHERE user_id = ${due.user_id} AND subscription_id = ${due.subscription_id} AND event_id = ${due.event_id}
      AND attempts = ${due.attempt}`
}

/** The subscription, and whatever was to be told to it. The keys tell it from one made again meanwhile. */
export async function forgetSubscription({ db }: Pick<Deps, 'db'>, due: Due): Promise<void> {
  await db.admin.transaction(async (tx) => {
    await tx`
      DELETE FROM push_subscriptions WHERE user_id = ${due.user_id}
        AND subscription_id = ${due.subscription_id} AND p256dh = ${due.p256dh}`
    await tx`
      DELETE FROM push_deliveries
      WHERE user_id = ${due.user_id} AND subscription_id = ${due.subscription_id}`
  })
}

const sweepMax = 10_000

export async function sweepExpired({ db, clock }: Pick<Deps, 'db' | 'clock'>): Promise<void> {
  await db.admin.sql`
    DELETE FROM push_subscriptions s USING (
      SELECT user_id, subscription_id FROM push_subscriptions
      WHERE expires_at <= ${new Date(clock())} LIMIT ${sweepMax}
    ) old
    WHERE s.user_id = old.user_id AND s.subscription_id = old.subscription_id`
}
