import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect as connectTcp, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { environmentFor } from '../../core/claim/testing.ts'
import { uuid7 } from '../../core/claim/uuid7.ts'
import { parseEnv } from '../../core/env.ts'
import { makeKeyrings } from '../../core/keyrings.ts'
import type { Keyring } from '../../schema/sealed.ts'
import { sealAssertion } from '../../schema/tokens.ts'
import { until } from '../../stack/process.ts'
import { discard, freshDatabase, freshRedis } from '../../stack/testing.ts'
import type { Suite } from './suite.ts'

/**
 * A whole core process with ten thousand streams, each of a user of its own, over TCP. The clients are in this
 * process, so none of their memory is counted. A campaign's results are committed to the outbox in one transaction,
 * as the worst burst there is; the clock runs from the commit until the last client has its own result.
 */

const fullSize = 10_000
/** Streams opened and closed again first, so that what a process needs once is not divided among connections. */
const warmUp = 1_000
const openingAtOnce = 64
const openWithinMs = 180_000
const toldWithinMs = 60_000

interface Core {
  child: ChildProcess
  url: URL
  memory(): Promise<NodeJS.MemoryUsage>
  stop(): Promise<void>
}

async function startCore(env: Record<string, string>): Promise<Core> {
  const [main, probe] = ['../../core/main.ts', './memoryProbe.ts'].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  )
  const child = spawn(process.execPath, ['--expose-gc', '--import', probe!, main!], {
    env: { PATH: process.env['PATH'], ...env, LOG_LEVEL: 'error', TIDEGATE_PARENT: '1' },
    stdio: ['pipe', 'pipe', 'inherit', 'ipc'],
  })
  const ended = once(child, 'exit').then(() => {
    throw new Error('the core ended')
  })
  ended.catch(() => undefined)
  const lines = createInterface({ input: child.stdout! })
  const [line] = (await Promise.race([once(lines, 'line'), ended])) as [string]
  return {
    child,
    url: new URL((JSON.parse(line) as { listening: string }).listening),
    async memory() {
      const answer = once(child, 'message') as Promise<[NodeJS.MemoryUsage]>
      child.send('memory')
      return (await Promise.race([answer, ended]))[0]
    },
    async stop() {
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      await gone
    },
  }
}

class Client {
  readonly userId: string
  toldAt: number | undefined
  #socket: Socket
  #text = ''
  #opened = false

  constructor(url: URL, userId: string, keys: Keyring) {
    this.userId = userId
    this.#socket = connectTcp(Number(url.port), url.hostname)
    this.#socket.setEncoding('latin1').on('data', (text: string) => this.#read(text))
    this.#socket.on('error', () => undefined)
    const assertion = sealAssertion(userId, Date.now(), keys)
    this.#socket.write(
      `GET /v1/me/events HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\nTidegate-Assertion: ${assertion}\r\n\r\n`,
    )
  }

  #read(text: string): void {
    this.#text += text
    if (this.toldAt === undefined && this.#text.includes('event: claim.delivered'))
      this.toldAt = performance.now()
    if (this.#text.includes('event: snapshot')) this.#opened = true
    // A word may be cut in two; nothing longer is looked for.
    this.#text = this.#text.slice(-30)
  }

  /** @throws when the stream does not begin. */
  async opened(): Promise<this> {
    await until(() => this.#opened, `no stream for ${this.userId}`, openWithinMs, 5)
    return this
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed && !this.#socket.readableEnded
  }

  close(): void {
    this.#socket.destroy()
  }
}

async function openAll(core: Core, keys: Keyring, count: number, name: string): Promise<Client[]> {
  const clients: Client[] = []
  let next = 0
  const opener = async () => {
    while (next < count) clients.push(await new Client(core.url, `${name}-${next++}`, keys).opened())
  }
  await Promise.all(Array.from({ length: openingAtOnce }, opener))
  return clients
}

/** Commits a result for each client, and waits until each has it. @returns ms from the commit to each. */
async function tellAll(sql: postgres.Sql, clients: readonly Client[]): Promise<number[]> {
  for (const client of clients) client.toldAt = undefined
  const now = new Date().toISOString()
  const requests = clients.map(() => uuid7(Date.now()))
  await sql`
    INSERT INTO outbox (user_id, request_id, type, payload, created_at)
    SELECT user_id, request_id, 'claim.delivered', jsonb_build_object('request_id', request_id, 'status',
      'DELIVERED', 'coupon_id', request_id, 'campaign_id', 'cbench', 'valid_from', ${now}::text, 'valid_until',
      ${now}::text), ${now}::timestamptz
    FROM unnest(${clients.map(({ userId }) => userId)}::text[], ${requests}::uuid[]) AS i(user_id, request_id)`
  const committed = performance.now()
  const all = () => clients.every(({ toldAt }) => toldAt !== undefined)
  await until(all, 'not every client was told', toldWithinMs, 50)
  return clients.map(({ toldAt }) => toldAt! - committed).sort((a, b) => a - b)
}

const round = (value: number) => Math.round(value * 10) / 10

async function measure(
  core: Core,
  sql: postgres.Sql,
  keys: Keyring,
  connections: number,
  turns: number,
  say: (line: string) => void,
) {
  const warm = await openAll(core, keys, Math.min(warmUp, connections), 'warm')
  await tellAll(sql, warm)
  for (const client of warm) client.close()
  await until(async () => (await openStreams(core)) === 0, 'closed streams stay', 30_000, 50)
  const before = await core.memory()
  const began = performance.now()
  const clients = await openAll(core, keys, connections, 'user')
  const openedIn = performance.now() - began
  const after = await core.memory()
  const each = (of: (memory: NodeJS.MemoryUsage) => number) =>
    round((of(after) - of(before)) / connections / 1024)
  say(`  ${connections} streams open after ${Math.round(openedIn)} ms`)
  const told: number[][] = []
  for (let turn = 0; turn < turns; turn++) {
    told.push(await tellAll(sql, clients))
    say(`  ${turn + 1}/${turns} the last was told after ${Math.round(told.at(-1)!.at(-1)!)} ms`)
  }
  const stayed = clients.filter(({ isOpen }) => isOpen).length
  for (const client of clients) client.close()
  const middle = told.sort((a, b) => a.at(-1)! - b.at(-1)!)[Math.floor((turns - 1) / 2)]!
  return {
    connections: stayed,
    kb_per_connection: each(({ rss }) => rss),
    heap_kb_per_connection: each(({ heapUsed, external }) => heapUsed + external),
    first_told_ms: round(middle[0]!),
    median_told_ms: round(middle[Math.floor(middle.length / 2)]!),
    last_told_ms: round(middle.at(-1)!),
    opened_per_s: Math.round(connections / (openedIn / 1000)),
  }
}

async function openStreams(core: Core): Promise<number> {
  const text = await (await fetch(new URL('/metrics', core.url))).text()
  return Number(/^tidegate_streams_open (\d+)/m.exec(text)?.[1])
}

/** A core process of its own with so many streams: what each takes, and when the last one is told. */
export async function measureStreams(connections: number, turns: number, say: (line: string) => void) {
  const [database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  const sql = postgres(database.url, { max: 1, onnotice: () => undefined })
  const env = environmentFor(database.url, redis.url)
  const core = await startCore(env)
  try {
    const keys = makeKeyrings(parseEnv(env).keys).edgeCore
    return await measure(core, sql, keys, connections, turns, say)
  } finally {
    await core.stop()
    await sql.end({ timeout: 2 })
    await discard(redis)
    await database.drop()
  }
}

export const sseSuite: Suite = {
  name: 'sse',
  about: 'ten thousand streams in one core process: their memory, and when the last hears its result',
  async run({ say, turns }) {
    const result = await measureStreams(fullSize, turns, say)
    const budgets = {
      'connections = 10000': result.connections === fullSize,
      'kb_per_connection ≤ 20': result.kb_per_connection <= 20,
      'last_told_ms ≤ 1000': result.last_told_ms <= 1000,
    }
    return { result, budgets }
  },
}
