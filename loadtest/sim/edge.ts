import type { Bucket } from '../../lua/keys.ts'
import type { ScriptRunner } from '../../lua/runner.ts'
import { restRunner } from '../../lua/runner.ts'
import { limits } from '../../schema/limits.ts'
import type { Keyring, Mac } from '../../schema/sealed.ts'
import { simulatedFetch } from './gateway.ts'
import type { Network } from './network.ts'
import type { Random } from './random.ts'
import { Process, within } from './scheduler.ts'
import type { RedisServer } from './server.ts'

/**
 * An isolate of the gate: the product's own claim handler, group commit, sold-out marker, breaker, guards and REST
 * client, put together as edge/worker.ts does it. They are loaded by name because their types are of the worker's
 * runtime.
 */

export interface Edge {
  readonly process: Process
  /** `POST /v1/campaigns/{id}/claims`. */
  claim(headers: Record<string, string>): Promise<Response>
}

interface Lifetime {
  waitUntil(work: Promise<unknown>): void
}
type Log = (event: string, fields?: Record<string, unknown>) => void
interface Cache {
  match(name: string): Promise<Response | undefined>
  put(name: string, response: Response): Promise<void>
}
type Made = Record<string, unknown>

interface EdgeModules {
  claim(parts: Made, request: Request, lifetime: Lifetime, campaignId: string): Promise<Response>
  makeGuards(
    config: unknown,
    bindings: Made,
    campaigns: Made,
    log: Log,
    clock: () => number,
  ): { claim: unknown }
  parseGuardConfig(bindings: Made, store: Made): unknown
  macFor(secret: string): Mac
  randomText(fill: (bytes: Uint8Array) => void): { text(chars: number): string }
  makeRefuse(ids: unknown): unknown
  requestIds(prefix: string): unknown
  makeLocationCache(cache: () => Cache, log: Log): unknown
  makeHolders(options: Made): unknown
  breakerRunner(runner: ScriptRunner, breaker: unknown): ScriptRunner
  arbiterCallEndsMs: number
  Breaker: new (options: Made) => unknown
  GroupCommit: new (options: Made) => unknown
  SoldOut: new (options: Made) => { learn(...args: unknown[]): void }
  Metrics: new (dataset: undefined, clock: () => number) => unknown
}

const files = [
  'claim',
  'guards/compose',
  'guards/config',
  'mac',
  'random',
  'refusal',
  'locationCache',
  'holders',
  'arbiterRunner',
  'breaker',
  'groupCommit',
  'soldOut',
  'metrics',
]

export async function loadEdge(): Promise<EdgeModules> {
  const parts = await Promise.all(
    files.map((name) => import(new URL(`../../edge/${name}.ts`, import.meta.url).href) as Promise<object>),
  )
  return Object.assign({}, ...parts) as EdgeModules
}

export interface EdgeGround {
  readonly modules: EdgeModules
  readonly server: RedisServer
  readonly network: Network
  readonly random: Random
  readonly campaignId: string
  readonly keys: { claimToken: Keyring; receipt: Keyring; campaignId: Keyring }
  /** What the isolates of this location share; it outlives them. */
  readonly cache: LocationStore
}

export function startEdge(name: string, ground: EdgeGround): Edge {
  const process = new Process(name)
  const parts = within(process, '', () => compose(ground))
  const lifetime: Lifetime = {
    waitUntil(work) {
      work.catch((error) => ground.network.scheduler.fail(error))
    },
  }
  const { campaignId, modules } = ground
  const url = `https://gate.invalid/v1/campaigns/${campaignId}/claims`
  return {
    process,
    claim: (headers) =>
      within(process, '', () =>
        modules.claim(parts, new Request(url, { method: 'POST', headers }), lifetime, campaignId),
      ),
  }
}

function compose({ modules: m, server, network, random, keys, cache: shared }: EdgeGround): Made {
  const clock = () => network.scheduler.nowMs
  const log: Log = (event, fields) =>
    network.note(`log: ${event} ${JSON.stringify(fields ?? {}).slice(0, 160)}`)
  const text = m.randomText((bytes) => bytes.set(random.bytes(bytes.length)))
  const refuse = m.makeRefuse(m.requestIds(text.text(12)))
  const cache = m.makeLocationCache(() => shared.seenBy(network), log)
  const toRedis = new m.Breaker({ what: 'redis', log, callEndsMs: m.arbiterCallEndsMs, clock })
  const rest = restRunner({
    url: 'https://redis.invalid',
    token: 'token',
    timeoutMs: limits.arbiterCallTimeoutMs,
    fetch: simulatedFetch(server, network),
  })
  const runner = m.breakerRunner(rest, toRedis)
  const holders = m.makeHolders({ runner, cache, log })
  const groups = new m.GroupCommit({
    runner,
    onReply: (bucket: Bucket, ...told: unknown[]) => arbiter.learn(bucket, ...told),
    log,
    clock,
  })
  const arbiter = new m.SoldOut({ arbiter: groups, holders, cache, clock })
  // It has seen no campaign: the guards of a campaign are no part of this.
  const campaigns = { known: () => undefined, refresh: () => undefined }
  const wide = 'claim.user=1000000/1s,claim.device=1000000/1s'
  const config = m.parseGuardConfig({ CLIENT_ADDRESS: 'optional', LIMITS: wide }, {})
  const guards = m.makeGuards(config, {}, campaigns, log, clock)
  const metrics = new m.Metrics(undefined, clock)
  return {
    metrics,
    keys,
    logins: {},
    arbiter,
    ballots: groups,
    guard: guards.claim,
    core: {},
    random: text,
    refuse,
    clock,
  }
}

/** The Cache API of one location, in virtual time. */
export class LocationStore {
  readonly #kept = new Map<string, { body: Uint8Array<ArrayBuffer>; untilMs: number }>()

  seenBy(network: Network): Cache {
    const { scheduler } = network
    return {
      match: async (name) => {
        await scheduler.sleep(network.latency())
        const kept = this.#kept.get(name)
        if (kept === undefined || scheduler.nowMs >= kept.untilMs) return undefined
        const { body } = kept
        const text = new TextDecoder().decode(body)
        return { text: async () => text, arrayBuffer: async () => body.slice().buffer } as unknown as Response
      },
      put: async (name, response) => {
        const age = Number(/max-age=(\d+)/.exec(response.headers.get('Cache-Control') ?? '')?.[1] ?? 0)
        const body = new Uint8Array(await scheduler.real(response.arrayBuffer()))
        await scheduler.sleep(network.latency())
        this.#kept.set(name, { body, untilMs: scheduler.nowMs + age * 1_000 })
      },
    }
  }
}
