import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'

/** A Lua script by its hash, and whole once where Redis does not know it (A1 §3.2 advises the same). */
export function scriptOf(source: string): (redis: Redis, keys: string[], args: string[]) => Promise<number> {
  const sha1 = createHash('sha1').update(source).digest('hex')
  return async (redis, keys, args) => {
    try {
      return Number(await redis.evalsha(sha1, keys.length, ...keys, ...args))
    } catch (error) {
      if (!(error as Error).message.startsWith('NOSCRIPT')) throw error
      return Number(await redis.eval(source, keys.length, ...keys, ...args))
    }
  }
}
