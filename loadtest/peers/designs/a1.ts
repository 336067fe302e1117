import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Design, makeCoupons } from './design.ts'
import { scriptOf } from './script.ts'
import { consumeQueue, makeQueue, queuePending } from './streamQueue.ts'

/**
 * Article A1, §3.2, §3.3 and §4.2: an idempotency key set first, then the script, then an event to a queue, whose
 * consumer inserts in batches and skips what is there already. Its queue is a stream of the same Redis here. One
 * thing is not as printed: the limit given to the script is out of reach, since its SCARD counts all users, and
 * with the user's limit of 1 it would give out a single coupon.
 */

const decide = scriptOf(readFileSync(join(import.meta.dirname, '../../bench/peers/a1.lua'), 'utf8'))
const noLimit = '100000000'
const [stockKey, usersKey, queueKey] = ['{peer}:stock', '{peer}:users', '{peer}:events']
const batchMax = 500

export const a1: Design = {
  name: 'a1-script',
  about: 'Idempotency key by SET NX, Lua for stock and user set, then an event to a queue (article A1)',
  store: 'redis',
  async prepare({ redis, sql }, quota) {
    await redis.flushall()
    await redis.set(stockKey, quota)
    await makeQueue(redis, queueKey)
    await makeCoupons(sql, 'PRIMARY KEY (request_id)')
  },
  async claim({ redis }, userId, key) {
    if ((await redis.set(`{peer}:idempotent:${key}`, 1, 'EX', 600, 'NX')) === null) return 'ACCEPTED'
    const result = await decide(redis, [stockKey, usersKey], [userId, noLimit])
    if (result === -1 || result === -3) return 'SOLD_OUT'
    if (result === -2) return 'LIMIT_REACHED'
    await redis.xadd(queueKey, '*', 'user', userId, 'request', randomUUID())
    return 'ACCEPTED'
  },
  consume: ({ blocking, sql }, stopped) =>
    consumeQueue(blocking, queueKey, batchMax, stopped, async (messages) => {
      const requests = messages.map(({ fields }) => fields['request']!)
      const users = messages.map(({ fields }) => fields['user']!)
      await sql`INSERT INTO peer_coupons SELECT * FROM unnest(${requests}::text[], ${users}::text[])
        ON CONFLICT DO NOTHING`
    }),
  pending: ({ redis }) => queuePending(redis, queueKey),
  remaining: async ({ redis }) => Number(await redis.get(stockKey)),
}
