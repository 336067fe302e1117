import { afterSoldOut } from './matrix/afterSoldOut.ts'
import { buckets } from './matrix/buckets.ts'
import { oneStockKey } from './matrix/oneStockKey.ts'
import { openingFlood } from './matrix/openingFlood.ts'
import { pollingStorm } from './matrix/pollingStorm.ts'
import { redisColdStart } from './matrix/redisColdStart.ts'
import { redisFailover } from './matrix/redisFailover.ts'
import { repeatUsers } from './matrix/repeatUsers.ts'
import { slowDrain } from './matrix/slowDrain.ts'
import { slowShard } from './matrix/slowShard.ts'
import type { Scenario } from './scenario.ts'

/** The load matrix of A4 §15.2, in its order. */
export const scenarios: readonly Scenario[] = [
  openingFlood,
  oneStockKey,
  buckets,
  repeatUsers,
  redisColdStart,
  redisFailover,
  slowDrain,
  slowShard,
  afterSoldOut,
  pollingStorm,
]
