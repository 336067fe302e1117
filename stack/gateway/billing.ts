import type { Send } from './execute.ts'
import { isError, replyValue } from './reply.ts'

/**
 * Commands as Upstash bills them.
 *
 * Upstash charges every command that the database executes, those called by scripts too, whoever sent it.
 * Stock Redis counts the same thing: `INFO commandstats` grows by one for EVALSHA and by one for each
 * `redis.call` inside it. So the bill is the growth of those counters since the gateway started (or was
 * reset), for the whole database, including clients that connect past the gateway.
 *
 * - Not charged by Upstash, and so left out: AUTH, HELLO, SELECT, COMMAND, CONFIG, INFO, PING, RESET, QUIT.
 *   Also left out is what a served database would not see: CLIENT (clients introduce themselves) and
 *   replication's own commands. Whatever the gateway does for itself is among these, so its bookkeeping never
 *   shows in the bill.
 * - MULTI and EXEC are charged; Upstash does not list them among the free ones.
 * - Redis's counters start again at zero when it restarts (another run id) or after CONFIG RESETSTAT (some
 *   counter fell). Then what is found is all new. The counters are read every second, so at most that much is
 *   missed, and the bill never shrinks.
 */
const FREE = new Set(
  [
    ['auth', 'hello', 'select', 'command', 'config', 'info', 'ping', 'reset', 'quit'],
    ['client', 'replconf', 'psync', 'sync'],
  ].flat(),
)

export type CommandCounts = Record<string, number>

export interface Bill {
  billed_commands: number
  /** Billed commands by name in lower case; a subcommand is named like `script|load`. */
  by_command: CommandCounts
}

const SAMPLE_PERIOD_MS = 1000

/** Follows the command counters of one Redis. */
export class Billing {
  readonly #send: Send
  #runId = ''
  #last: Map<string, number> | undefined
  #billed = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(send: Send) {
    this.#send = send
  }

  /** Begins to follow the counters: what Redis counted before the first sample is not billed. */
  start(): void {
    this.#timer = setInterval(() => {
      // Redis being away is reported by the link; the next sample finds what was missed.
      this.sample().catch(() => undefined)
    }, SAMPLE_PERIOD_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Brings the bill up to date. @throws when Redis does not answer. */
  async sample(): Promise<void> {
    const [frame] = (await this.#send([['INFO', 'server', 'commandstats']])) as [Buffer]
    if (isError(frame)) return
    const info = String(replyValue(frame))
    const runId = /^run_id:(\w+)/m.exec(info)?.[1] ?? ''
    const calls = readCalls(info)
    const last = this.#last
    this.#last = calls
    const restarted = runId !== this.#runId
    this.#runId = runId
    if (last === undefined) return
    const base = restarted || hasFallen(last, calls) ? new Map<string, number>() : last
    for (const [name, count] of calls) {
      const grown = count - (base.get(name) ?? 0)
      if (grown > 0) this.#billed.set(name, (this.#billed.get(name) ?? 0) + grown)
    }
  }

  /** The bill at the last sample. */
  bill(): Bill {
    let total = 0
    for (const count of this.#billed.values()) total += count
    const byCount = [...this.#billed].sort(([, a], [, b]) => b - a)
    return { billed_commands: total, by_command: Object.fromEntries(byCount) }
  }

  /** Starts a new bill. @throws when Redis does not answer. */
  async reset(): Promise<void> {
    await this.sample()
    this.#billed = new Map()
  }
}

/**
 * Calls by command, without the free ones. Rejected calls (wrong arity, unknown) never ran and are not in
 * `calls`.
 */
function readCalls(info: string): Map<string, number> {
  const calls = new Map<string, number>()
  for (const [, name, count] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    if (name !== undefined && !FREE.has(name.split('|')[0] ?? '')) calls.set(name, Number(count))
  }
  return calls
}

function hasFallen(last: Map<string, number>, now: Map<string, number>): boolean {
  for (const [name, count] of last) if ((now.get(name) ?? 0) < count) return true
  return false
}

/** The bills of all nodes behind one gateway as one. The list grows when a cluster's node is met. */
export class TotalBill {
  readonly #bills: readonly Billing[]

  constructor(bills: readonly Billing[]) {
    this.#bills = bills
  }

  stop(): void {
    for (const bill of this.#bills) bill.stop()
  }

  /** @throws when a node does not answer. */
  async sample(): Promise<void> {
    await Promise.all(this.#bills.map((bill) => bill.sample()))
  }

  bill(): Bill {
    const total: Bill = { billed_commands: 0, by_command: {} }
    for (const bill of this.#bills) {
      const { billed_commands: billed, by_command: counts } = bill.bill()
      total.billed_commands += billed
      for (const [name, count] of Object.entries(counts))
        total.by_command[name] = (total.by_command[name] ?? 0) + count
    }
    return total
  }

  async reset(): Promise<void> {
    await Promise.all(this.#bills.map((bill) => bill.reset()))
  }
}
