import { upper } from './commands.ts'
import { keySlot } from './key-slot.ts'
import { type RedisAddress, type RedisLink, RedisLinkError } from './redis-link.ts'
import { errorText, isError, replyValue } from './reply.ts'
import type { Argument, Command } from './resp.ts'

/** What the gateway needs of Redis, one server or a cluster. */
export interface Store {
  /** Sends commands; one frame a command, in order. Those between MULTI and EXEC run on one node, undivided. */
  request(commands: readonly Command[]): Promise<Buffer[]>
  readonly ready: boolean
  firstAttempt(): Promise<void>
  close(): void
}

const learnEveryMs = 200

/** Commands without a key that every node must hear. */
const forAll = new Set(['SCRIPT', 'FLUSHALL', 'FLUSHDB'])

/**
 * A Redis Cluster behind the gateway: each command goes to the master of its first key's slot. The map comes from
 * CLUSTER SLOTS and is mended by MOVED, which also means that nothing ran, so the command is sent again, once.
 */
export class ClusterLink implements Store {
  readonly #links = new Map<string, RedisLink>()
  readonly #open: (address: RedisAddress) => RedisLink
  readonly #seeds: readonly RedisAddress[]
  readonly #masterOf = new Array<string | undefined>(16_384)
  #learning: Promise<void> | undefined
  #learnAgainAt = 0

  constructor(seeds: readonly RedisAddress[], open: (address: RedisAddress) => RedisLink) {
    this.#seeds = seeds
    this.#open = open
    for (const seed of seeds) this.#linkTo(nameOf(seed))
  }

  /** The connections, one a node that was ever needed. */
  get nodes(): RedisLink[] {
    return [...this.#links.values()]
  }

  get ready(): boolean {
    return this.nodes.some((link) => link.ready)
  }

  async firstAttempt(): Promise<void> {
    await Promise.all(this.nodes.map((link) => link.firstAttempt()))
    await this.#learnSlots()
  }

  close(): void {
    for (const link of this.nodes) link.close()
  }

  async request(commands: readonly Command[]): Promise<Buffer[]> {
    if (commands.length > 1 && upper(commands[0]![0]) === 'MULTI') return this.#together(commands)
    return Promise.all(commands.map((command) => this.#one(command)))
  }

  async #one(command: Command): Promise<Buffer> {
    const key = firstKey(command)
    if (key === undefined && forAll.has(upper(command[0]))) {
      const frames = await Promise.all(this.#masters().map((link) => link.request([command])))
      return frames.flat().find(isError) ?? frames[0]![0]!
    }
    const [frame] = await this.#ask(key, [command])
    const moved = this.#follow(frame!)
    return moved === undefined ? frame! : (await moved.request([command]))[0]!
  }

  /**
   * A master that is away may have been replaced, and nobody else says so: the map is asked for again. What was not
   * sent goes to the new master at once; what may have been sent is the caller's to ask again.
   */
  async #ask(key: Argument | undefined, commands: readonly Command[]): Promise<Buffer[]> {
    const link = this.#at(key)
    try {
      return await link.request(commands)
    } catch (error) {
      if (!(error instanceof RedisLinkError)) throw error
      const learnt = this.#learnSlotsSoon()
      if (error.failure !== 'unavailable') throw error
      await learnt
      const other = this.#at(key)
      if (other === link) throw error
      return other.request(commands)
    }
  }

  /** A transaction, whole, on the node of its first key. */
  async #together(commands: readonly Command[]): Promise<Buffer[]> {
    const key = commands.map(firstKey).find((found) => found !== undefined)
    const frames = await this.#ask(key, commands)
    for (const frame of frames) {
      const moved = this.#follow(frame)
      if (moved !== undefined) return moved.request(commands)
    }
    return frames
  }

  #at(key: Argument | undefined): RedisLink {
    const name = key === undefined ? undefined : this.#masterOf[keySlot(Buffer.from(key as string))]
    if (name !== undefined) return this.#linkTo(name)
    const any = this.nodes.find((link) => link.ready)
    if (any === undefined) throw new RedisLinkError('unavailable')
    return any
  }

  #masters(): RedisLink[] {
    const names = new Set(this.#masterOf.filter((name) => name !== undefined))
    return names.size > 0 ? [...names].map((name) => this.#linkTo(name)) : this.nodes
  }

  /** The node that a MOVED reply names, remembered for its slot. */
  #follow(frame: Buffer): RedisLink | undefined {
    if (!isError(frame)) return undefined
    const moved = /^MOVED (\d+) (.+)$/.exec(errorText(frame))
    if (moved === null) return undefined
    this.#masterOf[Number(moved[1])] = moved[2]!
    // Others will have moved too; the answer is not waited for.
    void this.#learnSlotsSoon()
    return this.#linkTo(moved[2]!)
  }

  #linkTo(name: string): RedisLink {
    let link = this.#links.get(name)
    if (link === undefined) {
      const colon = name.lastIndexOf(':')
      const { username, password } = this.#seeds[0]!
      link = this.#open({
        host: name.slice(0, colon),
        port: Number(name.slice(colon + 1)),
        ...(username === undefined ? {} : { username }),
        ...(password === undefined ? {} : { password }),
      })
      this.#links.set(name, link)
    }
    return link
  }

  /** Never rejects; whoever asks while it is asked shares the answer, and asks at most every so often. */
  #learnSlotsSoon(): Promise<void> {
    if (this.#learning === undefined || performance.now() >= this.#learnAgainAt) {
      this.#learnAgainAt = performance.now() + learnEveryMs
      this.#learning = this.#learnSlots().catch(() => undefined)
    }
    return this.#learning
  }

  async #learnSlots(): Promise<void> {
    const any = this.nodes.find((link) => link.ready)
    if (any === undefined) return
    const [frame] = await any.request([['CLUSTER', 'SLOTS']])
    if (isError(frame!)) return
    for (const [from, to, master] of replyValue(frame!) as [number, number, [string, number]][]) {
      this.#masterOf.fill(`${master[0]}:${master[1]}`, from, to + 1)
    }
  }
}

const nameOf = ({ host, port }: RedisAddress) => `${host}:${port}`

/** Where the first key stands; commands whose keys come later than the first argument are listed. */
function firstKey(command: Command): Argument | undefined {
  switch (upper(command[0])) {
    case 'EVAL':
    case 'EVALSHA':
    case 'EVAL_RO':
    case 'EVALSHA_RO':
    case 'FCALL':
    case 'FCALL_RO':
      return Number(command[2]) > 0 ? command[3] : undefined
    case 'XGROUP':
    case 'XINFO':
    case 'OBJECT':
    case 'MEMORY':
      return command[2]
    case 'XREAD':
    case 'XREADGROUP': {
      const streams = command.findIndex((argument) => upper(argument) === 'STREAMS')
      return streams < 0 ? undefined : command[streams + 1]
    }
    case 'SCRIPT':
    case 'FLUSHALL':
    case 'FLUSHDB':
    case 'PING':
    case 'ECHO':
    case 'DBSIZE':
    case 'INFO':
    case 'TIME':
    case 'COMMAND':
    case 'SCAN':
    case 'KEYS':
    case 'RANDOMKEY':
    case 'PUBLISH':
    case 'MULTI':
    case 'EXEC':
      return undefined
    default:
      return command[1]
  }
}
