/** The load matrix of A4 §15.2: the names of its scenarios, in its order, and what each is. */
export const titles = {
  'opening-flood': 'The opening: everybody at once',
  'one-stock-key': 'One stock key, to its limit',
  buckets: 'Stock in eight buckets, to the last coupon',
  'repeat-users': 'Four of five requests are repetitions',
  'redis-cold-start': 'Redis killed and started empty in the middle',
  'redis-failover': 'Redis killed in the middle, its replica promoted',
  'slow-drain': 'The drain waits for Postgres',
  'slow-shard': 'One hash partition of the ledger is slow',
  'after-sold-out': 'Traffic after the last coupon',
  'polling-storm': 'Ten times as many questions as claims',
} as const

export type ScenarioName = keyof typeof titles
export const scenarioNames = Object.keys(titles) as ScenarioName[]
