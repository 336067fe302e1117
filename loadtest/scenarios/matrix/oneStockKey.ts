import { limits } from '../../../schema/limits.ts'
import { meanOf, ramp } from '../arrivals.ts'
import { titles } from '../names.ts'
import type { Scenario } from '../scenario.ts'
import { atLeast, atMost, latency, none } from '../verdict.ts'

export const oneStockKey: Scenario = {
  name: 'one-stock-key',
  title: titles['one-stock-key'],
  about:
    'One campaign with one bucket, and stock for all: the rate climbs past what the rehearsal showed. Watched: what ' +
    'one key’s Redis does with it, how claims are grouped, and which process is at its limit.',
  share: 1.15,
  async run(world, { seconds, perSecond, seed }) {
    const curve = ramp(0.15, 1)
    // One bucket holds so much and no more: the climb is steeper where that would not last.
    const quota = Math.min(limits.bucketQuotaMax, Math.max(200, Math.round(perSecond * seconds)))
    const lasts = (quota * 0.95) / (perSecond * meanOf(curve))
    await world.open([{ quota }])
    const crowd = await world.gather({
      seed,
      seconds: Math.min(seconds, lasts),
      perSecond,
      curve,
      kinds: { once: 1 },
      campaigns: 1,
      zipf: 1,
    })
    await world.begin()
    const { redisCpu: redisBefore, redisBytes } = world.before!
    const before = world.before!.counters
    const began = performance.now()
    await world.flood(crowd)
    const floodSeconds = (performance.now() - began) / 1000
    const counters = await world.counters()
    const { cpuSeconds, bytes } = await world.readStore()
    const decisions = counters.claims - before.claims
    const calls = counters.calls - before.calls
    Object.assign(world.figures, {
      redis_cpu_percent: ((cpuSeconds - redisBefore) / floodSeconds) * 100,
      decisions_per_s: decisions / floodSeconds,
      calls_per_s: calls / floodSeconds,
      redis_kb_per_s: (bytes - redisBytes) / floodSeconds / 1000,
      redis_bytes_per_decision: (bytes - redisBytes) / Math.max(1, decisions),
      decisions_per_redis_cpu_s: decisions / Math.max(0.01, cpuSeconds - redisBefore),
    })
  },
  judge: (measured) => {
    const { figures = {}, codes } = measured
    return [
      atMost('Redis’ CPU, of one', figures['redis_cpu_percent'], 60, '%'),
      atLeast('decisions a CPU second of Redis', figures['decisions_per_redis_cpu_s'], 10_000),
      atMost('Redis commands of the edge a claim', figures['edge_commands_per_request'], 2),
      atMost('arbiter’s script in Redis p99', figures['redis_script_p99_us'], 5_000, 'µs'),
      none('claim refused while there is stock', codes['SOLD_OUT'] ?? 0),
      atMost('accepted → told p99', latency(measured, 'deliver', 'p99_ms'), 5_000, 'ms'),
    ]
  },
}
