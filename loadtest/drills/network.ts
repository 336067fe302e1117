import { setTimeout as pause } from 'node:timers/promises'
import { type FaultProxy, startFaultProxy } from '../../stack/faultProxy.ts'
import type { Endpoints, PartName } from '../../stack/stack.ts'
import type { Drill } from './drill.ts'
import type { World } from './world.ts'

/**
 * Faults of the network between two parts, while people claim: cut (every connection is reset, and every new one),
 * frozen (nothing passes and nobody is told), half open each way (requests arrive and answers don't; answers pass
 * and requests don't, until they arrive late). Each lasts beyond the deadlines of those who wait.
 */

const faults = {
  cut: (proxy) => proxy.refuse(),
  frozen: (proxy) => proxy.freeze(),
  'half open, no answers': (proxy) => proxy.halfOpen(),
  'half open, no requests': (proxy) => proxy.deafen(),
} as const satisfies Record<string, (proxy: FaultProxy) => void>

interface Link {
  /** Who calls. */
  from: PartName
  to: PartName
  /** The caller's setting that holds the address. */
  setting: string
  /** Besides. */
  env?: Record<string, string>
  faultMs: number
}

const links = {
  // The edge's call ends after 2.5 s, its claims' patience after 3 s.
  'network-edge-gateway': {
    ...{ from: 'edge', to: 'gateway', setting: 'UPSTASH_REDIS_REST_URL', faultMs: 3_200 },
  },
  'network-gateway-redis': { from: 'gateway', to: 'redis', setting: 'REDIS_URL', faultMs: 3_200 },
  // A lease lasts 5 s, a command of the core 5 s.
  'network-core-redis': { from: 'core', to: 'redis', setting: 'REDIS_URL', faultMs: 5_500 },
  'network-core-postgres': { from: 'core', to: 'postgres', setting: 'DATABASE_URL', faultMs: 5_500 },
  'network-edge-core': { from: 'edge', to: 'core', setting: 'CORE_URL', faultMs: 2_500 },
} as const satisfies Record<string, Link>

/** So long after a fault people are accepted again, or it was not survived. */
const recoversWithinMs = 12_000

async function sufferAll(world: World, proxy: FaultProxy, { from, to, faultMs }: Link) {
  const figures: Record<string, number> = {}
  await world.open(1_500, { quota: 1_450 })
  // At most 40 a second: where claims go on through a fault, there must be stock left after the last.
  const flood = world.startFlood({ atOnce: 8, everyMs: 200 })
  await world.untilTold(20)
  for (const [name, inflict] of Object.entries(faults)) {
    const before = flood.told.length
    inflict(proxy)
    world.fault(`${from} → ${to}: ${name}`)
    await pause(faultMs)
    const during = flood.told.length - before
    proxy.release()
    world.fault(`${from} → ${to}: whole again`)
    const began = performance.now()
    await world.untilTold(flood.told.length + 10, recoversWithinMs)
    const key = name.replaceAll(/[ ,]+/g, '_')
    figures[`${key}_told`] = during
    figures[`${key}_recovered_ms`] = Math.round(performance.now() - began)
  }
  flood.hurry()
  await flood.finish()
  return { ...figures, unknown: (flood.codes['OUTCOME_UNKNOWN'] ?? 0) + (flood.codes['no answer'] ?? 0) }
}

/** Where what the caller calls really is. */
const addressOf = (endpoints: Endpoints, to: PartName): string => endpoints[to]

export const networkDrills: readonly Drill[] = Object.entries<Link>(links).map(([name, link]) => ({
  name,
  about: `${link.from} → ${link.to} cut, frozen, and half open each way: nothing is lost or doubled, and all goes on`,
  async run(world) {
    const { stack } = world
    const caller = stack.part(link.from)
    const address = addressOf(stack.endpoints, link.to)
    const proxy = await startFaultProxy(Number(new URL(address).port))
    try {
      await caller.restart({ ...link.env, [link.setting]: proxy.url(address) })
      return await sufferAll(world, proxy, link)
    } finally {
      await caller.restart({ [link.setting]: address })
      await proxy.close()
    }
  },
}))
