import { type Lifetime, within } from './lifetime.ts'

export interface KeptOptions<T> {
  /** Named where a load is late. */
  what: string
  /** Fetches the value anew; ends within `timeoutMs` by itself. */
  load(key: string): Promise<T>
  ttlMs(value: T): number
  /** How long after a failed load the next is tried. */
  retryMs: number
  /** How long a value may serve while loads fail, from when it was loaded. */
  staleMs: number
  timeoutMs: number
  entriesMax: number
  /**
   * A value asked for at least so often since it was loaded is hot: it is loaded anew behind an answer when
   * `ahead` of its time is over, so that nobody waits for it. Without this, nothing is hot.
   */
  hot?: { readonly gets: number; readonly ahead: number }
  clock(): number
}

interface Entry<T> {
  value?: { is: T; loadedAtMs: number }
  /** How often it was asked for since it was loaded. */
  gets: number
  refreshFromMs: number
  freshUntilMs: number
  failure?: unknown
  pending?: Promise<T>
  pendingUntilMs: number
}

/** How many entries are compared before one has to go. */
const evictionLooks = 16
/** A load ends by its own timeout first. */
const graceMs = 500

/**
 * Values kept in isolate memory. However many ask, one load a key is under way (singleflight). While loads fail,
 * the last value serves at once, within `staleMs`, and a load is tried behind the answer every `retryMs`.
 */
export class Kept<T> {
  readonly #options: KeptOptions<T>
  readonly #entries = new Map<string, Entry<T>>()

  constructor(options: KeptOptions<T>) {
    this.#options = options
  }

  /** @throws what the load threw (or Away), when there is nothing to serve instead. */
  async get(key: string, lifetime: Lifetime): Promise<T> {
    const nowMs = this.#options.clock()
    const entry = this.#entryOf(key)
    entry.gets++
    if (nowMs < entry.freshUntilMs) {
      if (nowMs >= entry.refreshFromMs) this.#loadAhead(key, entry, nowMs, lifetime)
      const servable = this.#servable(entry, nowMs)
      if (servable !== undefined) return servable.is
      throw entry.failure
    }
    if (entry.pending === undefined || nowMs >= entry.pendingUntilMs) this.#load(key, entry, nowMs, lifetime)
    const servable = this.#servable(entry, nowMs)
    if (entry.failure !== undefined && servable !== undefined) return servable.is
    try {
      return await within(entry.pending!, this.#options.timeoutMs + graceMs, this.#options.what)
    } catch (error) {
      if (servable !== undefined) return servable.is
      throw error
    }
  }

  /** What would be served now without waiting; undefined also when nothing was loaded yet. */
  known(key: string): T | undefined {
    const entry = this.#entries.get(key)
    return entry && this.#servable(entry, this.#options.clock())?.is
  }

  /** Loads anew behind its caller's back, if that is due and nobody does. */
  refresh(key: string, lifetime: Lifetime): void {
    const nowMs = this.#options.clock()
    const entry = this.#entryOf(key)
    if (nowMs < entry.freshUntilMs || (entry.pending !== undefined && nowMs < entry.pendingUntilMs)) return
    this.#load(key, entry, nowMs, lifetime)
  }

  /** Makes the next `get` load again, unless the value is younger than `ageMs`. Whether it will. */
  expire(key: string, ageMs: number): boolean {
    const entry = this.#entries.get(key)
    const nowMs = this.#options.clock()
    if (entry?.value === undefined || nowMs - entry.value.loadedAtMs < ageMs) return false
    entry.freshUntilMs = 0
    return true
  }

  #loadAhead(key: string, entry: Entry<T>, nowMs: number, lifetime: Lifetime): void {
    const { hot } = this.#options
    if (hot === undefined || entry.gets < hot.gets || entry.failure !== undefined) return
    if (entry.pending === undefined || nowMs >= entry.pendingUntilMs) this.#load(key, entry, nowMs, lifetime)
  }

  #servable(entry: Entry<T>, nowMs: number): Entry<T>['value'] {
    const { value } = entry
    return value !== undefined && nowMs < value.loadedAtMs + this.#options.staleMs ? value : undefined
  }

  #entryOf(key: string): Entry<T> {
    let entry = this.#entries.get(key)
    if (entry === undefined) {
      if (this.#entries.size >= this.#options.entriesMax) this.#entries.delete(this.#coldest())
      entry = { gets: 0, refreshFromMs: 0, freshUntilMs: 0, pendingUntilMs: 0 }
      this.#entries.set(key, entry)
    }
    return entry
  }

  /** Of the oldest few, so that a flood of new keys can't drive out what many ask for. */
  #coldest(): string {
    let coldest: { key: string; gets: number } | undefined
    let looked = 0
    for (const [key, { gets }] of this.#entries) {
      if (coldest === undefined || gets < coldest.gets) coldest = { key, gets }
      if (++looked === evictionLooks) break
    }
    return coldest!.key
  }

  #load(key: string, entry: Entry<T>, nowMs: number, lifetime: Lifetime): void {
    const { timeoutMs } = this.#options
    const pending: Promise<T> = this.#loadInto(entry, key).finally(() => {
      if (entry.pending === pending) delete entry.pending
    })
    entry.pending = pending
    // A load whose request died never settles: past this another one is started.
    entry.pendingUntilMs = nowMs + timeoutMs + graceMs
    lifetime.waitUntil(pending.catch(() => undefined))
  }

  async #loadInto(entry: Entry<T>, key: string): Promise<T> {
    const { load, ttlMs, retryMs, clock } = this.#options
    try {
      const is = await load(key)
      const loadedAtMs = clock()
      entry.value = { is, loadedAtMs }
      const ttl = ttlMs(is)
      entry.freshUntilMs = loadedAtMs + ttl
      entry.refreshFromMs = loadedAtMs + ttl * (this.#options.hot?.ahead ?? 1)
      entry.gets = 0
      delete entry.failure
      return is
    } catch (error) {
      entry.failure = error
      entry.freshUntilMs = clock() + retryMs
      throw error
    }
  }
}
