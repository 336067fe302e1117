import { compensatorRestarted, pauseUnderLoad } from './campaign.ts'
import { coreFrozen, coreKilled } from './core.ts'
import type { Drill } from './drill.ts'
import { edgeKilledAfterAccept } from './edge.ts'
import { redisFailoverStaleReplica } from './failover.ts'
import { networkDrills } from './network.ts'
import { postgresCommitLost, postgresDiskFull, postgresRestarted } from './postgres.ts'
import { redisFlushed, redisKilledAndRestarted, redisRestartedEmpty } from './redis.ts'

/** Every drill, in the order of `npm run drill -- all`. Those of another part of the product are added here. */
export const drills: readonly Drill[] = [
  redisFlushed,
  redisRestartedEmpty,
  redisFailoverStaleReplica,
  redisKilledAndRestarted,
  postgresRestarted,
  postgresCommitLost,
  postgresDiskFull,
  coreKilled,
  coreFrozen,
  edgeKilledAfterAccept,
  compensatorRestarted,
  pauseUnderLoad,
  ...networkDrills,
]
