import { startFaultProxy } from '../../stack/faultProxy.ts'
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
