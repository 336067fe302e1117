import { randomUUID } from 'node:crypto'
import { type Design, makeCoupons } from './design.ts'

/**
 * What A4 §17.2 warns of: stock by DECR, then an ordinary message. The user's mark and the stock are two commands,
 * each put back by hand when the next says no; the queue is a list, from which the consumer pops.
 */

const [stockKey, usersKey, queueKey] = ['{peer}:stock', '{peer}:users', '{peer}:queue']

export const redisThenPublish: Design = {
  name: 'redis-then-publish',
  about: 'SADD and DECR, then LPUSH to a queue, from which a consumer pops and inserts (A4 §17.2’s warning)',
  store: 'redis',
  async prepare({ redis, sql }, quota) {
    await redis.flushall()
    await redis.set(stockKey, quota)
    await makeCoupons(sql, 'PRIMARY KEY (request_id)')
  },
  async claim({ redis }, userId) {
    if ((await redis.sadd(usersKey, userId)) === 0) return 'LIMIT_REACHED'
    if ((await redis.decr(stockKey)) < 0) {
      await redis.incr(stockKey)
      await redis.srem(usersKey, userId)
      return 'SOLD_OUT'
    }
    await redis.lpush(queueKey, JSON.stringify({ userId, requestId: randomUUID() }))
    return 'ACCEPTED'
  },
  async consume({ blocking, sql }, stopped) {
    while (!stopped()) {
      const popped = await blocking.brpop(queueKey, 0.2)
      if (popped === null) continue
      const { userId, requestId } = JSON.parse(popped[1]) as { userId: string; requestId: string }
      await sql`INSERT INTO peer_coupons VALUES (${requestId}, ${userId}) ON CONFLICT DO NOTHING`
    }
  },
  pending: ({ redis }) => redis.llen(queueKey),
  remaining: async ({ redis }) => Number(await redis.get(stockKey)),
}
