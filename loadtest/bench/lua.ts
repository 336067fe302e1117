import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { type ClaimArgs, claim } from '../../lua/claim.ts'
import { gateKey, logKey, usersKey } from '../../lua/keys.ts'
import { tcpRunner } from '../../lua/runner.ts'
import { scripts } from '../../lua/scripts.generated.ts'
import { prime, renewLease, settle } from '../../lua/stock.ts'
import { encodeSixbit } from '../../schema/sixbit.ts'
import { discard, freshRedis } from '../../stack/testing.ts'
import { measurePostgresPeer } from './postgresPeer.ts'
import { drive, encodeCommand } from './resp.ts'
import { median, type Suite } from './suite.ts'

/**
 * Decisions a second of the arbiter and of what others use, by one driver: 50 connections, each waiting for its
 * reply before it sends again (unpipelined) or keeping 16 requests on the way (pipelined), requests encoded
 * beforehand, one Redis, a second a case, the cases in turn and the whole turn repeated. A ratio is the median of
 * the turns' ratios. `redis_cpu` is Redis' CPU seconds a second: near 1 means that Redis, not the driver, is
 * the limit.
 */

const connections = 50
const caseMs = 1000
const bucket = { campaignId: 'cbench', bucket: 0 }
const keys = [gateKey(bucket), usersKey(bucket), logKey(bucket)]
const persistences = ['off', 'everysec', 'always'] as const
type Persistence = (typeof persistences)[number]

const userId = (i: number) => `user-${String(i).padStart(15, '0')}`
const packed = (i: number) => `0${encodeSixbit(i, 12)}${encodeSixbit(i * 7, 9)}par1${encodeSixbit(i * 3, 9)}A`

interface Case {
  name: string
  /** Decisions in one request. */
  claims: number
  depth: number
  prepare(redis: Redis): Promise<void>
  requests: Buffer[]
}

async function openGate(redis: Redis, stock: number): Promise<void> {
  const runner = tcpRunner(redis)
  const now = Date.now()
  const window = { startsAtMs: now - 1000, endsAtMs: now + 3_600_000 }
  const config = { configVersion: 1, state: 'ACTIVE' as const, ruleVersion: 1, perUserLimit: 1, ...window }
  await prime(runner, bucket, config, { epoch: 1, amount: stock, final: true })
  await renewLease(runner, bucket, 3_600_000, true)
}

function ours(name: string, claims: number, depth: number, count: number, stock = 100_000_000): Case {
  let user = 0
  const requests = Array.from({ length: count }, () => {
    const from = user
    user += claims
    const range = Array.from({ length: claims }, (_, i) => from + i)
    return encodeCommand([
      'EVALSHA',
      scripts.claim.sha1,
      '3',
      ...keys,
      '',
      ...range.map(userId),
      ...range.map(packed),
    ])
  })
  return {
    name,
    claims,
    depth,
    requests,
    prepare: async (redis) => {
      await redis.script('LOAD', scripts.claim.source)
      await openGate(redis, stock)
    },
  }
}

function peer(
  name: string,
  file: string,
  depth: number,
  count: number,
  argsOf: (i: number) => string[],
): Case {
  const source = readFileSync(join(import.meta.dirname, 'peers', file), 'utf8')
  const sha1 = createHash('sha1').update(source).digest('hex')
  return {
    name,
    claims: 1,
    depth,
    requests: Array.from({ length: count }, (_, i) => encodeCommand(['EVALSHA', sha1, ...argsOf(i)])),
    prepare: async (redis) => {
      await redis.script('LOAD', source)
      await redis.set('{peer}:stock', 100_000_000)
    },
  }
}

/** The writes of one accepting call of 32 and nothing else: what Redis itself allows. */
function bareWrites(count: number): Case {
  const requests = Array.from({ length: count }, (_, call) => {
    const pairs = Array.from({ length: 32 }, (_, i) => [
      userId(call * 32 + i),
      `00000000${packed(call * 32 + i)}`,
    ])
    return Buffer.concat([
      encodeCommand(['XADD', keys[2]!, '*', 'v', '1:1', ...pairs.flat()]),
      encodeCommand(['HSET', keys[1]!, ...pairs.flat()]),
      encodeCommand(['HSET', keys[0]!, 'remaining', '1', 'accepted', '1']),
    ])
  })
  return { name: 'bare_writes32', claims: 32, depth: 1, requests, prepare: async () => {} }
}

function allCases(): Case[] {
  const a1 = (i: number) => ['2', '{peer}:stock', '{peer}:users', userId(i), '100000000']
  const flashSale = (i: number) => [
    '3',
    '{peer}:stock',
    '{peer}:users',
    '{peer}:orders',
    userId(i),
    String(i),
    '7',
  ]
  return [
    peer('baseline', 'a1.lua', 1, 200_000, a1),
    peer('baseline_pipelined', 'a1.lua', 16, 300_000, a1),
    ours('single', 1, 1, 150_000),
    ours('batch32', 32, 1, 20_000),
    ours('batch64', 64, 1, 12_000),
    ours('soldout', 32, 1, 30_000, 0),
    peer('flash_sale', 'flash-sale.lua', 1, 200_000, flashSale),
    peer('flash_sale_pipelined', 'flash-sale.lua', 16, 300_000, flashSale),
    bareWrites(20_000),
  ]
}

interface Measured {
  perSecond: number
  redisCpu: number
}

async function measure(redis: Redis, port: number, one: Case): Promise<Measured> {
  await redis.flushall()
  await one.prepare(redis)
  const repliesPerRequest = one.name === 'bare_writes32' ? 3 : 1
  const until = performance.now() + caseMs
  let at = 0
  const next = () => (performance.now() < until ? one.requests[at++] : undefined)
  const before = await cpuSeconds(redis)
  const result = await drive({
    port,
    connections,
    depth: one.depth * repliesPerRequest,
    repliesPerRequest,
    next,
  })
  const after = await cpuSeconds(redis)
  if (result.errors > 0) throw new Error(`${one.name}: ${result.firstError}`)
  return {
    perSecond: (result.requests / result.seconds / repliesPerRequest) * one.claims,
    redisCpu: (after - before) / result.seconds,
  }
}

async function cpuSeconds(redis: Redis): Promise<number> {
  const info = await redis.info('cpu')
  const value = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)![1])
  return value('used_cpu_user') + value('used_cpu_sys')
}

/** Memory of settled acceptances, and commands as billed, at a full bucket of 100,000. */
async function measureCost(
  redis: Redis,
): Promise<{ bytes_per_claim: number; commands_per_claim_32: number }> {
  await redis.flushall()
  await openGate(redis, 100_000)
  const runner = tcpRunner(redis)
  await claim(runner, bucket, [{ userId: userId(999_999), packed: packed(999_999) }])
  await redis.config('RESETSTAT')
  let accepted = 1
  const pending: { userId: string; requestId: string; state: 'D' }[] = []
  for (let from = 0; from + 32 <= 99_968; from += 32) {
    const claims = Array.from(
      { length: 32 },
      (_, i): ClaimArgs => ({ userId: userId(from + i), packed: packed(from + i) }),
    )
    const reply = await claim(runner, bucket, claims)
    accepted += 32
    const settled = claims.map(({ userId }, i) => ({
      userId,
      requestId: reply.verdicts[i]!.requestId!,
      state: 'D' as const,
    }))
    pending.push(...settled)
  }
  const commands = await commandCalls(redis)
  const ids = ((await redis.xrange(keys[2]!, '-', '+')) as [string, string[]][]).map(([id]) => id)
  for (let from = 0; from < pending.length; from += 2048)
    await settle(runner, bucket, [], pending.slice(from, from + 2048))
  for (let from = 0; from < ids.length; from += 500)
    await settle(runner, bucket, ids.slice(from, from + 500), [])
  const usage = await Promise.all(keys.map((key) => redis.call('MEMORY', 'USAGE', key, 'SAMPLES', '0')))
  const bytes = usage.reduce<number>((sum, each) => sum + Number(each ?? 0), 0)
  return { bytes_per_claim: bytes / accepted, commands_per_claim_32: commands / (accepted - 1) }
}

/** The same on a Redis of its own. */
export async function arbiterCost() {
  const server = await freshRedis({ appendfsync: 'off' })
  const redis = new Redis(server.url)
  try {
    return await measureCost(redis)
  } finally {
    redis.disconnect()
    await discard(server)
  }
}

/** Calls of all commands since the last reset, those inside scripts too; as Upstash counts. */
async function commandCalls(redis: Redis): Promise<number> {
  let calls = 0
  for (const [, name, count] of (await redis.info('commandstats')).matchAll(
    /^cmdstat_([^:]+):calls=(\d+)/gm,
  )) {
    if (!/^(config|info|script|eval$)/.test(name!)) calls += Number(count)
  }
  return calls
}

/** One persistence mode: every case in turn, `turns` times; medians, and medians of each turn's ratios. */
async function measureMode(persistence: Persistence, turns: number, say: (line: string) => void) {
  const server = await freshRedis({ appendfsync: persistence })
  const redis = new Redis(server.url)
  try {
    const cases = allCases()
    const runs = new Map<string, Measured[]>(cases.map(({ name }) => [name, []]))
    for (let turn = 0; turn < turns; turn++) {
      for (const one of cases) {
        const got = await measure(redis, server.port, one)
        runs.get(one.name)!.push(got)
        say(
          `  aof ${persistence} ${turn + 1}/${turns} ${one.name.padEnd(22)} ${Math.round(got.perSecond)} /s  (redis cpu ${got.redisCpu.toFixed(2)})`,
        )
      }
    }
    const perSecond = (name: string) => Math.round(median(runs.get(name)!.map((run) => run.perSecond)))
    const ratio = (name: string, to: string) =>
      round(median(runs.get(name)!.map((run, turn) => run.perSecond / runs.get(to)![turn]!.perSecond)))
    return {
      baseline_per_s: perSecond('baseline'),
      baseline_pipelined_per_s: perSecond('baseline_pipelined'),
      single_per_s: perSecond('single'),
      batch32_per_s: perSecond('batch32'),
      batch64_per_s: perSecond('batch64'),
      soldout_per_s: perSecond('soldout'),
      flash_sale_per_s: perSecond('flash_sale'),
      flash_sale_pipelined_per_s: perSecond('flash_sale_pipelined'),
      bare_writes32_per_s: perSecond('bare_writes32'),
      ratio_single: ratio('single', 'baseline'),
      ratio_batch32: ratio('batch32', 'baseline'),
      ratio_batch32_pipelined: ratio('batch32', 'baseline_pipelined'),
      ratio_batch32_flash_sale_pipelined: ratio('batch32', 'flash_sale_pipelined'),
      ratio_batch32_bare_writes: ratio('batch32', 'bare_writes32'),
      redis_cpu: Object.fromEntries(
        [...runs].map(([name, all]) => [name, round(median(all.map((run) => run.redisCpu)))]),
      ),
    }
  } finally {
    redis.disconnect()
    await discard(server)
  }
}

const round = (value: number) => Math.round(value * 100) / 100

export const luaSuite: Suite = {
  name: 'lua',
  about: 'decisions a second of the arbiter beside the article’s script and others',
  async run({ say, turns }) {
    const modes: Partial<Record<Persistence, Awaited<ReturnType<typeof measureMode>>>> = {}
    for (const persistence of persistences) modes[persistence] = await measureMode(persistence, turns, say)
    const cost = await arbiterCost()
    const postgres = await measurePostgresPeer(say)
    const main = modes.everysec!
    const budgets = {
      'ratio_batch32 ≥ 4': main.ratio_batch32 >= 4,
      'ratio_batch32_pipelined ≥ 2': main.ratio_batch32_pipelined >= 2,
      'ratio_single ≥ 0.6': main.ratio_single >= 0.6,
      'commands_per_claim_32 ≤ 0.25': cost.commands_per_claim_32 <= 0.25,
      'bytes_per_claim ≤ 120': cost.bytes_per_claim <= 120,
    }
    return {
      result: {
        ...main,
        commands_per_claim_32: round(cost.commands_per_claim_32),
        bytes_per_claim: round(cost.bytes_per_claim),
        by_persistence: modes,
        driver: `${connections} connections, depth 1 (16 where pipelined), requests encoded beforehand, ${caseMs} ms a case, median of ${turns} turns, top-level figures with AOF everysec`,
        peers: {
          a1_script: {
            per_s: main.baseline_per_s,
            lacks: [
              'request log',
              'replay by key',
              'time window',
              'pause',
              'lease',
              'rejects a user’s second coupon even where the limit is 2',
            ],
          },
          flash_sale_script: {
            per_s: main.flash_sale_per_s,
            pipelined_per_s: main.flash_sale_pipelined_per_s,
            lacks: [
              'replay by key (a retry hears “duplicate”)',
              'time window',
              'pause',
              'lease',
              'limits other than 1',
              'a return that can’t be repeated',
            ],
          },
          postgres_conditional_update: {
            ...postgres,
            lacks: [
              'shedding: every claim is a transaction',
              'pushes nothing off the database at the opening',
            ],
          },
        },
      },
      budgets,
    }
  },
}
