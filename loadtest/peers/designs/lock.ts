import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { type Design, makeCoupons } from './design.ts'

/**
 * Article A0, §1.2: SET lock value NX PX 3000 around reading the stock, looking for the user and writing both; the
 * coupon is inserted while the lock is held. The lock is given up by its owner's value only.
 */

const [lockKey, stockKey, usersKey] = ['{peer}:lock', '{peer}:stock', '{peer}:users']
const lockMs = 3_000
const waitMs = 1_000
const againMs = 5
const release = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

export const lock: Design = {
  name: 'redis-lock',
  about: 'SET NX PX around read, check and write, with the insert inside (article A0 §1.2)',
  store: 'redis',
  async prepare({ redis, sql }, quota) {
    await redis.flushall()
    await redis.set(stockKey, quota)
    await makeCoupons(sql, 'PRIMARY KEY (request_id)')
  },
  async claim({ redis, sql }, userId, key) {
    const owner = randomUUID()
    if (!(await acquire(redis, owner))) return 'BUSY'
    try {
      const stock = Number(await redis.get(stockKey))
      if (await redis.sismember(usersKey, userId)) {
        const [had] = await sql`SELECT 1 FROM peer_coupons WHERE request_id = ${key}`
        return had === undefined ? 'LIMIT_REACHED' : 'ACCEPTED'
      }
      if (stock <= 0) return 'SOLD_OUT'
      await redis.set(stockKey, stock - 1)
      await redis.sadd(usersKey, userId)
      await sql`INSERT INTO peer_coupons VALUES (${key}, ${userId})`
      return 'ACCEPTED'
    } finally {
      await redis.eval(release, 1, lockKey, owner)
    }
  },
  pending: async () => 0,
  remaining: async ({ redis }) => Number(await redis.get(stockKey)),
}

async function acquire(redis: Redis, owner: string): Promise<boolean> {
  for (const until = Date.now() + waitMs; Date.now() < until; ) {
    if ((await redis.set(lockKey, owner, 'PX', lockMs, 'NX')) === 'OK') return true
    await new Promise((resolve) => setTimeout(resolve, againMs * (0.5 + Math.random())))
  }
  return false
}
