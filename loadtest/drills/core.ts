import { setTimeout as pause } from 'node:timers/promises'
import { type FaultProxy, startFaultProxy } from '../../stack/faultProxy.ts'
import { until } from '../../stack/process.ts'
import { startService } from '../../stack/service.ts'
import type { Stack } from '../../stack/stack.ts'
import type { Drill } from './drill.ts'
import type { World } from './world.ts'

/** Deaths and freezes of the core. */

/** The core speaks to Postgres through a proxy while `work` is done; unprepared, so that the proxy can read along. */
export async function throughProxy<T>(world: World, work: (proxy: FaultProxy) => Promise<T>): Promise<T> {
  const { stack } = world
  const core = stack.part('core')
  const { postgres } = stack.endpoints
  const proxy = await startFaultProxy(Number(new URL(postgres).port))
  try {
    await core.restart({ DATABASE_URL: proxy.url(postgres), DATABASE_PREPARE: 'false' })
    return await work(proxy)
  } finally {
    await core.restart({ DATABASE_URL: postgres, DATABASE_PREPARE: 'true' })
    await proxy.close()
  }
}

/** The end of a transaction that issued coupons. */
export const issuing = { commit: /commit/i, after: /insert into claims/i }

export const coreKilled: Drill = {
  name: 'core-killed',
  about: 'the core killed three times between the commit of a batch and its acknowledgement: no coupon twice',
  run: (world) =>
    throughProxy(world, async (proxy) => {
      const core = world.stack.part('core')
      await world.open(400, { quota: 300 })
      const flood = world.startFlood()
      for (let kills = 0; kills < 3; kills++) {
        await world.untilTold(20 + 40 * kills)
        await proxy.holdAnswer(issuing.commit, () => core.kill(), issuing.after)
        world.fault('core killed between commit and acknowledgement')
        await core.start()
      }
      await flood.finish()
      return { kills: 3 }
    }),
}

/** A second core beside the stack's own, on the same Postgres and Redis. */
async function startSecondCore({ dir, keys, endpoints }: Stack) {
  return startService({
    name: 'core-2',
    file: 'core/main.ts',
    dir,
    env: {
      DATABASE_URL: endpoints.postgres,
      REDIS_URL: endpoints.redis,
      LOGIN_JWKS_URL: `${endpoints.issuer}/.well-known/jwks.json`,
      LOGIN_ISSUER: 'https://login.tidegate.invalid',
      LOGIN_AUDIENCE: 'tidegate',
      CLAIM_TOKEN_KEYS: keys.claimTokenKeys,
      RECEIPT_KEYS: keys.receiptKeys,
      CAMPAIGN_ID_KEYS: keys.campaignIdKeys,
      EDGE_CORE_KEYS: keys.edgeCoreKeys,
    },
  })
}

export const coreFrozen: Drill = {
  name: 'core-frozen',
  about:
    'a core frozen with entries in hand until another has taken them over, then thawed: each has one outcome',
  async run(world) {
    const { stack } = world
    const core = stack.part('core')
    await world.open(300, { quota: 250 })
    const second = await startSecondCore(stack)
    try {
      const flood = world.startFlood()
      await world.untilTold(60)
      // With Postgres' lock on its stock, batches stay in the frozen process' hands.
      await world.sql.begin(async (tx) => {
        await tx`SELECT 1 FROM campaign_stock WHERE campaign_id = ${world.campaignId} FOR UPDATE`
        await world.untilTold(flood.told.length + 20)
        core.pause()
        world.fault('core frozen')
      })
      await flood.finish()
      const pendingOf = () =>
        world.withRedis(async (redis) => {
          const [count] = (await redis.xpending(`tg:{${world.campaignId}:0}:log`, 'core')) as [number]
          return count
        })
      const heldBefore = await pendingOf()
      await until(async () => (await pendingOf()) === 0, 'nobody took over', 40_000, 100)
      core.resume()
      world.fault('core thawed')
      await pause(500)
      return { entries_held: heldBefore }
    } finally {
      core.resume()
      await second.stop()
    }
  },
}
