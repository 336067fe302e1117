import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Design, makeCoupons } from './design.ts'
import { scriptOf } from './script.ts'
import { consumeQueue, makeQueue, queuePending } from './streamQueue.ts'

/**
 * The script that tutorials pass on, with the order's stream in the same script; one consumer takes an order at a
 * time, looks whether the user has one, lowers the database's stock where it is above zero, and inserts.
 */

const decide = scriptOf(readFileSync(join(import.meta.dirname, '../../bench/peers/flash-sale.lua'), 'utf8'))
const [stockKey, usersKey, ordersKey] = ['{peer}:stock', '{peer}:users', '{peer}:orders']

export const flashSale: Design = {
  name: 'flash-sale-stream',
  about: 'Lua for stock, user set and an entry in a stream; one consumer writes an order a transaction',
  store: 'redis',
  async prepare({ redis, sql }, quota) {
    await redis.flushall()
    await redis.set(stockKey, quota)
    await makeQueue(redis, ordersKey)
    await makeCoupons(sql, 'PRIMARY KEY (request_id)')
    await sql.unsafe('DROP TABLE IF EXISTS peer_stock; CREATE TABLE peer_stock (remaining bigint NOT NULL)')
    await sql`INSERT INTO peer_stock VALUES (${quota})`
  },
  async claim({ redis }, userId) {
    const result = await decide(redis, [stockKey, usersKey, ordersKey], [userId, randomUUID(), '7'])
    if (result === 0) return 'ACCEPTED'
    return result === 1 ? 'SOLD_OUT' : 'LIMIT_REACHED'
  },
  consume: ({ blocking, sql }, stopped) =>
    consumeQueue(blocking, ordersKey, 1, stopped, async ([message]) => {
      const { userId, id } = message!.fields
      await sql.begin(async (tx) => {
        const [had] = await tx`SELECT 1 FROM peer_coupons WHERE user_id = ${userId!}`
        if (had !== undefined) return
        const taken =
          await tx`UPDATE peer_stock SET remaining = remaining - 1 WHERE remaining > 0 RETURNING 1`
        if (taken.length > 0) await tx`INSERT INTO peer_coupons VALUES (${id!}, ${userId!})`
      })
    }),
  pending: ({ redis }) => queuePending(redis, ordersKey),
  remaining: async ({ redis }) => Number(await redis.get(stockKey)),
}
