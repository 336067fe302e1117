import type { Redis } from 'ioredis'
import type { Logger } from 'pino'
import { type Bucket, drainGroup, logKey } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import type { Store, StoreNode } from '../stores/store.ts'
import { causeOf } from './failures.ts'
import {
  type Batch,
  batchesOf,
  ensureGroups,
  isMissing,
  type LogReader,
  type XReadReply,
} from './logReader.ts'
import { isWorthTelling, within } from './patience.ts'

export interface ClusterReaderOptions {
  store: Store
  consumer: string
  log: Logger
  /** Told of entries as soon as they are here: they may wait until they are asked for. */
  received(batch: Batch): void
  /** A reply with entries of this log may have been lost. */
  doubtful(bucket: Bucket): void
}

/** Connections that wait for logs, of one store in one process. */
export const lanesMax = 32
/** How long a lane of several logs waits for one of them before it looks at all again, ms: longer while all is quiet. */
const sharedBlock = { firstMs: 25, longestMs: 200 }
/** Beyond its own time a reply may be late by this much before the connection is given up. */
const graceMs = 5_000
const longestPauseMs = 2_000

/**
 * Reads the logs of a cluster. No command of a cluster reads keys of two slots, so each log is waited for by a
 * connection of its own (a lane) to the node that serves it; with more logs than lanes, a lane looks through its logs
 * in turns. A lane whose node is away pauses and finds the slot's new node; the others go on.
 */
export function openClusterReader(options: ClusterReaderOptions): LogReader {
  const lanes = new Map<string, Lane>()
  let ring: () => void = () => undefined

  return {
    async read(buckets, countEach) {
      const wanted = assign(buckets, addressIn(options.store))
      for (const [name, lane] of lanes)
        if (!wanted.has(name) && lane.isIdle()) {
          lane.close()
          lanes.delete(name)
        }
      const rung = Promise.withResolvers<void>()
      ring = rung.resolve
      for (const [name, logs] of wanted) {
        const lane = lanes.get(name) ?? new Lane(options)
        lanes.set(name, lane)
        lane.start(logs, countEach, () => ring())
      }
      const timer = setTimeout(rung.resolve, limits.drainBlockMs)
      const take = () => [...lanes.values()].flatMap((lane) => lane.take())
      let batches = take()
      if (batches.length === 0) {
        await rung.promise
        batches = take()
      }
      clearTimeout(timer)
      return batches
    },
    wake: () => ring(),
    close() {
      for (const lane of lanes.values()) lane.close()
      ring()
    },
  }
}

/**
 * Which logs each lane waits for: one each while there are lanes enough; else those of a node are dealt out to the
 * node's share of the lanes, so that a node that is away holds up none of another's logs.
 */
export function assign(
  buckets: readonly Bucket[],
  addressOf: (bucket: Bucket) => string,
): Map<string, Bucket[]> {
  if (buckets.length <= lanesMax) return new Map(buckets.map((bucket) => [logKey(bucket), [bucket]]))
  const byNode = Map.groupBy(buckets, addressOf)
  const lanesEach = Math.max(1, Math.floor(lanesMax / byNode.size))
  const lanes = new Map<string, Bucket[]>()
  for (const [address, logs] of byNode)
    for (const [i, bucket] of logs.entries()) {
      const name = `${address} ${i % lanesEach}`
      const there = lanes.get(name)
      if (there === undefined) lanes.set(name, [bucket])
      else there.push(bucket)
    }
  return lanes
}

/** Logs whose node nobody knows are in a lane of their own: it fails until there is one. */
function addressIn(store: Store): (bucket: Bucket) => string {
  return (bucket) => {
    try {
      return store.nodeOf(logKey(bucket)).address
    } catch {
      return 'nowhere'
    }
  }
}

class Lane {
  readonly #options: ClusterReaderOptions
  /** By the address of the node. */
  readonly #connections = new Map<string, Redis>()
  #reading = false
  #read: Batch[] = []
  #failed = 0
  #pauseUntil = 0
  /** Which of several logs is waited for next. */
  #turn = 0
  #waitMs = sharedBlock.firstMs
  #closed = false

  constructor(options: ClusterReaderOptions) {
    this.#options = options
  }

  isIdle(): boolean {
    return !this.#reading && this.#read.length === 0
  }

  /** Reads once, unless it does, or has something to be taken, or pauses. */
  start(logs: readonly Bucket[], countEach: number, done: () => void): void {
    if (!this.isIdle() || performance.now() < this.#pauseUntil) return
    this.#reading = true
    this.#readOnce(logs, countEach)
      .then(
        () => {
          this.#failed = 0
        },
        (error) => this.#fail(logs, error),
      )
      .finally(() => {
        this.#reading = false
        done()
      })
  }

  take(): Batch[] {
    const taken = this.#read
    this.#read = []
    return taken
  }

  close(): void {
    this.#closed = true
    this.#disconnect()
  }

  #disconnect(): void {
    for (const connection of this.#connections.values()) connection.disconnect()
    this.#connections.clear()
  }

  #fail(logs: readonly Bucket[], error: unknown): void {
    if (this.#closed) return
    this.#disconnect()
    for (const bucket of logs) this.#options.doubtful(bucket)
    this.#failed += 1
    this.#pauseUntil = performance.now() + Math.min(longestPauseMs, 50 * 2 ** this.#failed)
    if (isWorthTelling(this.#failed))
      this.#options.log.warn(
        { cause: causeOf(error), times: this.#failed, log_keys: logs.slice(0, 3).map(logKey) },
        'reading a cluster’s logs failed and is tried again',
      )
  }

  async #readOnce(logs: readonly Bucket[], countEach: number): Promise<void> {
    if (logs.length === 1) return this.#ask(logs[0]!, countEach, limits.drainBlockMs)
    await Promise.all(logs.map((bucket) => this.#ask(bucket, countEach, undefined)))
    if (this.#read.length === 0) {
      this.#turn = (this.#turn + 1) % logs.length
      await this.#ask(logs[this.#turn]!, countEach, this.#waitMs)
    }
    const { firstMs, longestMs } = sharedBlock
    this.#waitMs = this.#read.length > 0 ? firstMs : Math.min(longestMs, 2 * this.#waitMs)
  }

  async #ask(bucket: Bucket, count: number, blockMs: number | undefined): Promise<void> {
    const { store, consumer, log } = this.#options
    const key = logKey(bucket)
    const node = store.nodeOf(key)
    const connection = this.#connectionTo(node)
    const group = ['GROUP', drainGroup, consumer, 'COUNT', count] as const
    const newest = ['STREAMS', key, '>'] as const
    try {
      const asked = (
        blockMs === undefined
          ? connection.xreadgroup(...group, ...newest)
          : connection.xreadgroup(...group, 'BLOCK', blockMs, ...newest)
      ) as Promise<XReadReply>
      const reply = await within(asked, (blockMs ?? 0) + graceMs, 'a blocking read')
      for (const batch of batchesOf(reply, [bucket], [key])) {
        this.#options.received(batch)
        this.#read.push(batch)
      }
    } catch (error) {
      if (!isMissing(error)) throw error
      log.error(
        { cause: causeOf(error) },
        'a log or its group is gone; making it again, from its first entry',
      )
      await ensureGroups(store.client, [key])
    }
  }

  #connectionTo(node: StoreNode): Redis {
    const there = this.#connections.get(node.address)
    if (there !== undefined) return there
    const fresh = this.#options.store.connectTo(node)
    this.#connections.set(node.address, fresh)
    return fresh
  }
}
