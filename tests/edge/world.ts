import { createHmac, randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import type { Bucket } from '../../lua/keys.ts'
import { type ScriptRunner, tcpRunner } from '../../lua/runner.ts'
import {
  type BucketSnapshot,
  configure,
  type GateConfig,
  prime,
  renewLease,
  snapshot,
} from '../../lua/stock.ts'
import { makeCampaignId } from '../../schema/campaignId.ts'
import type { Problem } from '../../schema/problem.ts'
import { type Keyring, parseKeyring } from '../../schema/sealed.ts'
import type { CampaignSnapshot } from '../../schema/view.ts'
import { startGateway } from '../../stack/gateway/server.ts'
import {
  LOGIN_AUDIENCE,
  LOGIN_ISSUER,
  type LoginRequest,
  mintLogin,
  startIssuer,
} from '../../stack/issuer.ts'
import { makeKeys, type StackKeys } from '../../stack/keys.ts'
import { discard, type FreshRedis, freshRedis } from '../../stack/testing.ts'
import { CoreDouble } from './coreDouble.ts'
import { type Gate, type GateOptions, startWorker } from './gate.ts'

/** The gate's bundle in workerd, before a real Redis (behind the Upstash-compatible gateway) and a double of the core. */

export interface WorldOptions extends GateOptions {
  /** Bindings over those that the world gives; functions of the world are not ready yet. */
  bindings?: Record<string, string>
}

export interface CampaignOptions {
  quota?: number
  perUserLimit?: number
  bucketCount?: number
  startsInMs?: number
  endsInMs?: number
  state?: CampaignSnapshot['state']
  /** Whether the gates are opened and leased; without, the core alone knows the campaign. */
  primed?: boolean
}

export interface Campaign {
  id: string
  snapshot: CampaignSnapshot
  gate: GateConfig
  buckets: Bucket[]
}

export interface Answer {
  status: number
  headers: Headers
  text: string
  /** The JSON body, or an empty object. */
  body: Record<string, unknown> & Partial<Problem>
}

export interface ClaimOptions {
  token?: string
  key?: string
  headers?: Record<string, string>
  init?: RequestInit
}

export const device = 'device-1'
const macFor = (secret: string) => (text: string) =>
  createHmac('sha256', secret).update(text).digest('base64url')

export class World {
  readonly keys: StackKeys
  readonly redis: FreshRedis
  readonly client: Redis
  readonly runner: ScriptRunner
  readonly core: CoreDouble
  #worker: Gate | undefined
  #bindings: Record<string, string> = {}
  #stops: (() => Promise<unknown>)[] = []

  constructor(keys: StackKeys, redis: FreshRedis, core: CoreDouble) {
    this.keys = keys
    this.redis = redis
    this.core = core
    this.client = new Redis(redis.url, { lazyConnect: true })
    this.client.on('error', () => undefined)
    this.runner = tcpRunner(this.client as never)
  }

  static async start(options: WorldOptions = {}): Promise<World> {
    const keys = await makeKeys()
    const [redis, issuer] = await Promise.all([freshRedis(), startIssuer(keys)])
    const core = new CoreDouble(parseKeyring('EDGE_CORE_KEYS', keys.edgeCoreKeys, macFor))
    await core.start()
    const world = new World(keys, redis, core)
    const gateway = await startGateway({
      redisUrl: redis.url,
      token: keys.gatewayToken,
      port: 0,
      strictKeys: true,
    })
    world.#stops = [
      () => gateway.close(),
      () => core.stop(),
      () => issuer.stop(),
      async () => world.client.disconnect(),
      () => discard(redis),
    ]
    try {
      world.#bindings = {
        UPSTASH_REDIS_REST_URL: gateway.url,
        UPSTASH_REDIS_REST_TOKEN: keys.gatewayToken,
        CORE_URL: core.url,
        CLIENT_ADDRESS: 'optional',
        // Wide for all tests but those of the limits: here all users have one device.
        LIMITS: ['token', 'claim', 'read']
          .flatMap((route) => [`${route}.user=100000/1m:50000`, `${route}.device=100000/1m:50000`])
          .join(),
        LOGIN_JWKS_URL: issuer.jwksUrl,
        LOGIN_ISSUER,
        LOGIN_AUDIENCE,
        CLAIM_TOKEN_KEYS: keys.claimTokenKeys,
        RECEIPT_KEYS: keys.receiptKeys,
        CAMPAIGN_ID_KEYS: keys.campaignIdKeys,
        EDGE_CORE_KEYS: keys.edgeCoreKeys,
        ...options.bindings,
      }
      world.#worker = await startWorker(world.#bindings, options)
    } catch (error) {
      await world.stop()
      throw error
    }
    return world
  }

  get url(): string {
    return this.#worker!.url
  }

  /** The address of each isolate, the first of which is `url`. */
  get isolates(): string[] {
    return this.#worker!.isolates
  }

  /** A gate with the same bindings in another location. @returns its address; it ends with this world. */
  async anotherLocation(): Promise<string> {
    const gate = await startWorker(this.#bindings)
    this.#stops.unshift(() => gate.stop())
    return gate.url
  }

  /** What the worker logged. */
  log(): string {
    return this.#worker!.tail(1_000)
  }

  async stop(): Promise<void> {
    await this.#worker?.stop()
    for (const stop of this.#stops) await stop()
  }

  ring(name: 'claimTokenKeys' | 'receiptKeys' | 'campaignIdKeys' | 'edgeCoreKeys'): Keyring {
    return parseKeyring(name, this.keys[name], macFor)
  }

  /** A campaign that the core knows, and whose gates are open unless told otherwise. */
  async campaign(options: CampaignOptions = {}): Promise<Campaign> {
    const {
      quota = 100,
      perUserLimit = 1,
      bucketCount = 1,
      startsInMs = -60_000,
      endsInMs = 3_600_000,
    } = options
    const id = makeCampaignId(randomBytes(16), this.ring('campaignIdKeys'))
    const state = options.state ?? 'ACTIVE'
    const snapshot: CampaignSnapshot = {
      id,
      name: 'Night market',
      mode: 'first_come',
      state,
      config_version: 1,
      starts_at_ms: Date.now() + startsInMs,
      ends_at_ms: Date.now() + endsInMs,
      per_user_limit: perUserLimit,
      bucket_count: bucketCount,
      benefit: {
        kind: 'amount_off',
        amount: { currency: 'CNY', minor: '2000' },
        threshold: { currency: 'CNY', minor: '10000' },
      },
      validity: { kind: 'days', days: 7 },
      time_zone: 'Asia/Shanghai',
      sold_out: false,
    }
    const gate: GateConfig = {
      configVersion: 1,
      state:
        state === 'ACTIVE' || state === 'PAUSED' || state === 'ENDED' || state === 'VOIDED'
          ? state
          : 'ACTIVE',
      ruleVersion: 1,
      startsAtMs: snapshot.starts_at_ms,
      endsAtMs: snapshot.ends_at_ms,
      perUserLimit,
    }
    this.core.campaigns.set(id, snapshot)
    const buckets = Array.from({ length: bucketCount }, (_, bucket) => ({ campaignId: id, bucket }))
    if (options.primed !== false)
      for (const bucket of buckets) {
        await prime(this.runner, bucket, gate, { epoch: 1, amount: quota / bucketCount, final: true })
        await renewLease(this.runner, bucket, 3_600_000, true)
      }
    return { id, snapshot, gate, buckets }
  }

  async reconfigure(campaign: Campaign, change: Partial<GateConfig>): Promise<void> {
    Object.assign(campaign.gate, change, { configVersion: campaign.gate.configVersion + 1 })
    for (const bucket of campaign.buckets) await configure(this.runner, bucket, campaign.gate)
  }

  /** Lets no bucket of the campaign accept any more, as when the core is dead. */
  async endLease(campaign: Campaign): Promise<void> {
    for (const bucket of campaign.buckets) await renewLease(this.runner, bucket, 0, true)
  }

  async bucket(campaign: Campaign, bucket = 0): Promise<BucketSnapshot> {
    const found = await snapshot(this.runner, campaign.buckets[bucket]!)
    if (found === undefined) throw new Error('no gate')
    return found
  }

  login(user: string, more: Partial<LoginRequest> = {}): Promise<string> {
    return mintLogin(this.keys, { user, ...more })
  }

  async call(path: string, init: RequestInit = {}): Promise<Answer> {
    const response = await fetch(this.url + path, { signal: AbortSignal.timeout(20_000), ...init })
    const text = await response.text()
    let body = {}
    if (text !== '' && /json/.test(response.headers.get('Content-Type') ?? '')) body = JSON.parse(text)
    return { status: response.status, headers: response.headers, text, body }
  }

  askToken(campaignId: string, headers: Record<string, string>, more: RequestInit = {}): Promise<Answer> {
    return this.call(`/v1/campaigns/${campaignId}/claim-tokens`, { method: 'POST', headers, ...more })
  }

  /** A genuine claim token, issued by the gate. Like any client, it comes back once where that may help. */
  async token(campaign: Campaign, user: string, deviceId = device): Promise<string> {
    const headers = { Authorization: `Bearer ${await this.login(user)}`, 'Device-Id': deviceId }
    let answer = await this.askToken(campaign.id, headers)
    // The limits' Redis has a second to answer, which a stalled machine can outlast.
    if (answer.status === 503) answer = await this.askToken(campaign.id, headers)
    if (answer.status !== 201) throw new Error(`no token: ${answer.status} ${answer.text}`)
    return answer.body['claim_token'] as string
  }

  claim(campaignId: string, { token, key, headers, init }: ClaimOptions): Promise<Answer> {
    return this.call(`/v1/campaigns/${campaignId}/claims`, {
      method: 'POST',
      ...init,
      headers: {
        ...(token === undefined ? {} : { 'Claim-Token': token }),
        ...(key === undefined ? {} : { 'Idempotency-Key': key }),
        ...headers,
      },
    })
  }
}
