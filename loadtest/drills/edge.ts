import { startFaultProxy } from '../../stack/faultProxy.ts'
import { until } from '../../stack/process.ts'
import type { Drill } from './drill.ts'

export const edgeKilledAfterAccept: Drill = {
  name: 'edge-killed-after-accept',
  about:
    'the edge killed after the arbiter accepted and before the client heard: the same key finds the acceptance',
  async run(world) {
    const { stack } = world
    const edge = stack.part('edge')
    const proxy = await startFaultProxy(Number(new URL(stack.endpoints.gateway).port))
    try {
      await edge.restart({ UPSTASH_REDIS_REST_URL: proxy.url(stack.endpoints.gateway) })
      await world.open(300, { quota: 250 })
      const flood = world.startFlood()
      for (let kills = 0; kills < 2; kills++) {
        await world.untilTold(20 + 40 * kills)
        await proxy.holdAnswer(/evalsha/i, () => edge.kill())
        world.fault('edge killed after the arbiter accepted')
        await edge.start()
      }
      await flood.finish()
      return { kills: 2, unanswered: flood.codes['no answer'] ?? 0 }
    } finally {
      await proxy.close()
      await edge.restart({ UPSTASH_REDIS_REST_URL: stack.endpoints.gateway })
    }
  },
}

/** More than the edge waits for the arbiter (2.5 s), and than a claim waits (3 s). */
const lateMs = 3_200

export const gatewayLate: Drill = {
  name: 'gateway-late',
  about:
    'every answer of the gateway comes after the clients’ deadline: OUTCOME_UNKNOWN, and the same key finds the acceptance',
  async run(world) {
    const { stack } = world
    const edge = stack.part('edge')
    const proxy = await startFaultProxy(Number(new URL(stack.endpoints.gateway).port))
    try {
      await edge.restart({ UPSTASH_REDIS_REST_URL: proxy.url(stack.endpoints.gateway) })
      await world.open(400, { quota: 350 })
      const flood = world.startFlood()
      await world.untilTold(60)
      proxy.delay(lateMs)
      world.fault(`answers of the gateway are ${lateMs} ms late`)
      await until(() => (flood.codes['OUTCOME_UNKNOWN'] ?? 0) >= 10, 'every answer came in time', 20_000)
      proxy.delay(0)
      world.fault('answers of the gateway are in time')
      await flood.finish()
      const found = world.recorder.events.filter(
        (event) => event.type === 'operation' && event.answer.outcome === 'accepted' && event.answer.replayed,
      ).length
      if (found === 0) world.violations.push('no late answer was an acceptance: nothing was tried')
      return { unknown: flood.codes['OUTCOME_UNKNOWN'] ?? 0, found_by_the_same_key: found }
    } finally {
      await proxy.close()
      await edge.restart({ UPSTASH_REDIS_REST_URL: stack.endpoints.gateway })
    }
  },
}
