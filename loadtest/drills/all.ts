import { compensatorRestarted, pauseUnderLoad } from './campaign.ts'
import { clockSteppedCore, clockSteppedRedis } from './clock.ts'
import { coreFrozen, coreKilled } from './core.ts'
import { redisMemoryLimit, slowDisk } from './disk.ts'
import type { Drill } from './drill.ts'
import { edgeKilledAfterAccept, gatewayLate } from './edge.ts'
import { redisFailoverStaleReplica } from './failover.ts'
import { identityOff } from './identity.ts'
import { logTwiceLateGone } from './log.ts'
import { networkDrills } from './network.ts'
import { postgresCommitLost, postgresDiskFull, postgresRestarted } from './postgres.ts'
import { redisFlushed, redisKilledAndRestarted, redisRestartedEmpty } from './redis.ts'
import { redisSentinelPromotion } from './sentinel.ts'

/** Every drill, in the order of `npm run drill -- all`. Those of another part of the product are added here. */
export const drills: readonly Drill[] = [
  redisFlushed,
  redisRestartedEmpty,
  redisFailoverStaleReplica,
  redisSentinelPromotion,
  redisKilledAndRestarted,
  redisMemoryLimit,
  postgresRestarted,
  postgresCommitLost,
  postgresDiskFull,
  slowDisk,
  coreKilled,
  coreFrozen,
  edgeKilledAfterAccept,
  gatewayLate,
  logTwiceLateGone,
  identityOff,
  compensatorRestarted,
  pauseUnderLoad,
  clockSteppedRedis,
  clockSteppedCore,
  ...networkDrills,
]
