import { holders } from '../lua/holders.ts'
import type { Bucket } from '../lua/keys.ts'
import type { ScriptRunner } from '../lua/runner.ts'
import { bounds } from './bounds.ts'
import type { LocationCache } from './locationCache.ts'
import { describe, type Log } from './log.ts'
import { UserSet } from './userSet.ts'

export interface HoldersOptions {
  readonly runner: ScriptRunner
  readonly cache: LocationCache
  readonly log: Log
}

/** Who has acceptances in a sold-out bucket. */
export interface Holders {
  /**
   * All of them at this epoch, from the location's cache or from the arbiter; undefined when they can't be had now:
   * the bucket is not sold out at this epoch any more, or something is away. Never rejects.
   */
  load(bucket: Bucket, epoch: number): Promise<UserSet | undefined>
}

export function makeHolders({ runner, cache, log }: HoldersOptions): Holders {
  return {
    async load(bucket, epoch) {
      const name = `holders/${bucket.campaignId}/${bucket.bucket}/${epoch}`
      const kept = await cache.get(name)
      if (kept !== undefined) {
        const set = UserSet.from(await kept.arrayBuffer())
        if (set !== undefined) return set
      }
      try {
        const set = await scan(runner, bucket, epoch)
        if (set !== undefined) await cache.put(name, set.bytes, bounds.holdersKeptMs)
        return set
      } catch (error) {
        log('holders_failed', describe(error))
        return undefined
      }
    },
  }
}

async function scan(runner: ScriptRunner, bucket: Bucket, epoch: number): Promise<UserSet | undefined> {
  const set = new UserSet()
  let cursor = '0'
  for (let pages = 0; pages < bounds.holdersPagesMax; pages++) {
    const page = await holders(runner, bucket, cursor, bounds.holdersPageUsers)
    if (page === undefined || page.epoch !== epoch || page.remaining > 0) return undefined
    for (const userId of page.userIds) set.add(userId)
    cursor = page.cursor
    if (cursor === '0') return set
  }
  return undefined
}
