import { createHash } from 'node:crypto'
import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'
import { targetFault } from '../notify/outbound/target.ts'
import { Refused } from '../refusal.ts'
import { isReceiver } from './encrypt.ts'
import { isPushService } from './services.ts'

/** What `PushSubscription.toJSON()` gives in a browser. */
export interface NewSubscription {
  endpoint: string
  keys: { p256dh: string; auth: string }
  /** ms since the epoch. */
  expirationTime?: number | null | undefined
}

export interface Subscription {
  id: string
  created_at: string
}

type PushDeps = Pick<Deps, 'db' | 'clock' | 'env'>

/**
 * Lets a browser hear of the user's results. The same browser again is the same subscription; of another user it
 * becomes this one's alone, and a user's oldest make room for new ones.
 * @throws Refused INVALID_REQUEST
 */
export async function subscribe(
  { db, clock, env }: PushDeps,
  userId: string,
  { endpoint, keys, expirationTime }: NewSubscription,
): Promise<Subscription> {
  const fault = targetFault(endpoint, env.outboundInsecure)
  if (fault !== undefined) throw new Refused('INVALID_REQUEST', { detail: `Correct endpoint: ${fault}.` })
  if (!env.outboundInsecure && !isPushService(endpoint))
    throw new Refused('INVALID_REQUEST', {
      detail:
        'Correct endpoint: it is no push service that we know. Send the browser’s subscription unchanged.',
    })
  const [p256dh, auth] = [Buffer.from(keys.p256dh, 'base64url'), Buffer.from(keys.auth, 'base64url')]
  if (!isReceiver({ p256dh, auth }))
    throw new Refused('INVALID_REQUEST', {
      detail: 'Correct keys: send the browser’s subscription unchanged.',
    })
  const id = idOf(endpoint)
  const now = new Date(clock())
  const expiresAt = expirationTime == null ? null : new Date(expirationTime)
  return db.admin.transaction(async (tx) => {
    await tx`DELETE FROM push_subscriptions WHERE subscription_id = ${id} AND user_id <> ${userId}`
    const [row] = await tx<{ created_at: Date }[]>`
      INSERT INTO push_subscriptions (user_id, subscription_id, endpoint, p256dh, auth, created_at, expires_at)
      VALUES (${userId}, ${id}, ${endpoint}, ${p256dh.toString('base64url')}, ${auth.toString('base64url')}, ${now},
        ${expiresAt})
      ON CONFLICT (user_id, subscription_id) DO UPDATE
      SET p256dh = excluded.p256dh, auth = excluded.auth, expires_at = excluded.expires_at
      RETURNING created_at`
    await tx`
      DELETE FROM push_subscriptions WHERE user_id = ${userId} AND subscription_id = ANY(ARRAY(
        SELECT subscription_id FROM push_subscriptions WHERE user_id = ${userId} AND subscription_id <> ${id}
        ORDER BY created_at DESC, subscription_id OFFSET ${limits.pushSubscriptionsPerUserMax - 1}))`
    return { id, created_at: row!.created_at.toISOString() }
  })
}

/** The user's own, newest first. */
export async function listSubscriptions({ db }: PushDeps, userId: string): Promise<Subscription[]> {
  const rows = await db.query.sql<{ subscription_id: string; created_at: Date }[]>`
    SELECT subscription_id, created_at FROM push_subscriptions
    WHERE user_id = ${userId} ORDER BY created_at DESC, subscription_id`
  return rows.map(({ subscription_id, created_at }) => ({
    id: subscription_id,
    created_at: created_at.toISOString(),
  }))
}

const idForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** @returns whether there was one, of this user. */
export async function unsubscribe({ db }: PushDeps, userId: string, id: string): Promise<boolean> {
  if (!idForm.test(id)) return false
  const { count } = await db.admin.sql`
    DELETE FROM push_subscriptions WHERE user_id = ${userId} AND subscription_id = ${id}`
  return count > 0
}

/** A UUID (version 8) made of the endpoint, which is a secret: the id does not give it away. */
function idOf(endpoint: string): string {
  const hash = createHash('sha256').update(endpoint).digest()
  hash[6] = (hash[6]! & 0x0f) | 0x80
  hash[8] = (hash[8]! & 0x3f) | 0x80
  const hex = hash.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
    '-',
  )
}
