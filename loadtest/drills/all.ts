import { coreKilled } from './core.ts'
import type { Drill } from './drill.ts'
import { postgresRestarted } from './postgres.ts'
import { redisFlushed, redisKilledAndRestarted, redisRestartedEmpty } from './redis.ts'

/** Every drill, in the order of `npm run drill -- all`. One of another part of the product is added here. */
export const drills: readonly Drill[] = [
  redisFlushed,
  redisRestartedEmpty,
  redisKilledAndRestarted,
  postgresRestarted,
  coreKilled,
]
