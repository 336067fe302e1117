import type { RedisClient } from '../stores/store.ts'

/** Which life of Redis this is, as far as it tells. */
export interface Incarnation {
  /** Another text is another life: a restart, a failover, another server. Undefined where Redis doesn't say. */
  id: string | undefined
  /** Only grows within one life; what was acknowledged and is lost makes it fall. */
  offset: number | undefined
  /** Undefined where Redis doesn't say. */
  evictionPolicy: string | undefined
  nowMs: number
  /** Redis' clock less ours, ms; as exact as the answer was quick. */
  clockAheadMs: number
}

/** @throws when Redis does not answer. */
export async function readIncarnation(redis: RedisClient, clock: () => number): Promise<Incarnation> {
  const [info, time] = await Promise.all([redis.info(), redis.time()])
  const nowMs = Number(time[0]) * 1000 + Math.floor(Number(time[1]) / 1000)
  const clockAheadMs = nowMs - clock()
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  const runId = field('run_id')
  const offset = Number(field('master_repl_offset'))
  return {
    id: runId === undefined ? undefined : `${runId} ${field('master_replid') ?? ''}`,
    offset: Number.isFinite(offset) ? offset : undefined,
    evictionPolicy: field('maxmemory_policy') ?? (await askPolicy(redis)),
    nowMs,
    clockAheadMs,
  }
}

/** Managed Redis often refuses CONFIG: then nobody can say. */
async function askPolicy(redis: RedisClient): Promise<string | undefined> {
  try {
    const reply = (await redis.config('GET', 'maxmemory-policy')) as string[]
    return reply[1]
  } catch (error) {
    if ((error as Error).name === 'ReplyError') return undefined
    throw error
  }
}

/** Whether `now` may be the life that `before` was. */
export function isSameLife(before: Incarnation, now: Incarnation): boolean {
  if (before.id !== now.id) return false
  return before.offset === undefined || now.offset === undefined || now.offset >= before.offset
}
