import { endCampaign } from '../../core/campaigns/end.ts'
import { increaseCampaign } from '../../core/campaigns/increase.ts'
import { pauseCampaign } from '../../core/campaigns/pause.ts'
import { resumeCampaign } from '../../core/campaigns/resume.ts'
import { rebuildCampaign } from '../../core/recovery/plan.ts'
import { type Core, type CoreGround, startCore } from './core.ts'
import { type Edge, type EdgeGround, startEdge } from './edge.ts'
import { Follow, type Manner } from './follow.ts'
import { Listener } from './listen.ts'
import type { Network } from './network.ts'
import type { Happening, Plan } from './plan.ts'
import type { Random } from './random.ts'
import { Process, type Scheduler, within } from './scheduler.ts'
import type { RedisServer } from './server.ts'
import type { Record } from './shoppers.ts'

export interface TownGround {
  readonly plan: Plan
  readonly network: Network
  readonly server: RedisServer
  readonly random: Random
  readonly campaignId: string
  readonly core: CoreGround
  readonly edge: EdgeGround
  /** The campaign's version in the ledger, for an operator's command. */
  readVersion(): Promise<number>
}

/** The processes of one seed, what befalls them, and what its people have seen. */
export class Town {
  readonly plan: Plan
  readonly network: Network
  readonly scheduler: Scheduler
  readonly random: Random
  readonly campaignId: string
  readonly record: Record = { answers: [], acceptances: new Map(), told: [], follows: [], listeners: [] }
  /** What no process may do, found while it went on. */
  readonly faults: string[] = []
  readonly #ground: TownGround
  /** People, and the hand that lets things happen: never killed. */
  readonly world = new Process('')
  readonly edges: Edge[] = []
  readonly #cores: (Core | undefined)[] = []
  readonly #starts: number[] = []
  #commands = 0
  isOver = false

  constructor(ground: TownGround) {
    this.#ground = ground
    this.plan = ground.plan
    this.network = ground.network
    this.scheduler = ground.network.scheduler
    this.random = ground.random
    this.campaignId = ground.campaignId
  }

  /** Starts everything, and plans what will happen. */
  start(): void {
    for (let which = 0; which < 2; which++) this.#startEdge(which)
    for (let which = 0; which < this.plan.cores; which++) this.#startCore(which)
    for (const happening of this.plan.happenings)
      this.scheduler.after(happening.atMs, this.world, () =>
        within(this.world, 'operator', () => {
          this.#happen(happening).catch((error) => this.scheduler.fail(error))
        }),
      )
  }

  /** A core that runs; undefined while there is none. */
  someCore(): Core | undefined {
    const running = this.cores
    return running.length === 0 ? undefined : this.random.pick(running)
  }

  get cores(): Core[] {
    return this.#cores.filter((core) => core?.process.alive === true) as Core[]
  }

  noteAcceptance(userId: string, requestId: string, receipt: string): void {
    const seen = this.record.acceptances.get(requestId)
    if (seen !== undefined && seen.userId !== userId)
      this.faults.push(`4: request ${requestId} was told to ${seen.userId} and to ${userId}`)
    if (seen !== undefined) return
    this.record.acceptances.set(requestId, { userId, requestId, receipt, seenAtMs: this.scheduler.nowMs })
  }

  follow({ userId }: { userId: string }, requestId: string, random: Random): void {
    const manner = random.weighted<Manner>({ listens: 50, asks: 30, leaves: 20 })
    const acceptance = this.record.acceptances.get(requestId)
    if (acceptance?.userId !== userId) return
    const follow = new Follow(acceptance, manner, this)
    this.record.follows.push(follow)
    within(this.world, 'client', () => follow.run().catch((error) => this.scheduler.fail(error)))
  }

  /** Opens a person's own stream. */
  listen(userId: string): void {
    const listener = new Listener(userId, this)
    this.record.listeners.push(listener)
    within(this.world, 'client', () => listener.run().catch((error) => this.scheduler.fail(error)))
  }

  #startEdge(which: number): void {
    const edge = startEdge(`edge-${which + 1}.${this.#count(which)}`, this.#ground.edge)
    this.edges[which] = edge
    edge.process.onDeath.add(() => this.#startEdge(which))
  }

  #startCore(which: number): void {
    const start = this.#count(10 + which)
    const name = `core-${which + 1}.${start}`
    const consumer = this.random.chance(0.6) ? `core-${which + 1}` : name
    const core = startCore(name, consumer, this.#ground.core)
    this.#cores[which] = core
    const awayMs = this.network.stormy ? this.random.int(50, 2_500) : 50
    core.process.onDeath.add(() => {
      this.scheduler.after(awayMs, this.world, () => this.#startCore(which))
    })
  }

  #count(which: number): number {
    this.#starts[which] = (this.#starts[which] ?? 0) + 1
    return this.#starts[which]
  }

  async #happen(happening: Happening): Promise<void> {
    const { server } = this.#ground
    switch (happening.kind) {
      case 'remember':
        return server.remember()
      case 'rewind': {
        const atMs = await server.rewind(happening.to, happening.seen)
        const seconds = atMs === undefined ? 'nothing' : `${(atMs - this.scheduler.startedAtMs) / 1000} s`
        this.network.note(
          `!! Redis is set back to ${seconds}${happening.seen ? '' : ', and says that it is the same'}`,
        )
        return this.#breakConnections()
      }
      case 'lose everything':
        await server.rewind('empty', true)
        this.network.note('!! Redis loses everything')
        return this.#breakConnections()
      case 'kill core':
        return this.#kill(this.#cores[happening.which]?.process)
      case 'kill edge':
        return this.#kill(this.edges[happening.which]?.process)
      case 'break subscription':
        this.network.note('!! subscriptions break')
        return this.#breakConnections()
      default:
        return this.#operate(happening)
    }
  }

  #breakConnections(): void {
    for (const core of this.cores) core.breakSubscriptions()
  }

  #kill(process: Process | undefined): void {
    if (process?.alive !== true) return
    this.network.note(`!! ${process.name} is killed`)
    process.kill()
  }

  /** An operator's command, tried until it has an answer. */
  async #operate(
    happening: Extract<Happening, { kind: 'pause' | 'resume' | 'end' } | { kind: 'increase' }>,
  ): Promise<void> {
    const key = `command-${++this.#commands}`
    const { kind } = happening
    for (let tries = 0; tries < 5; tries++) {
      const core = this.someCore()
      const expectedVersion = await this.#ground.readVersion()
      const input = { campaignId: this.campaignId, expectedVersion, reason: 'as planned' }
      const [actor, role] =
        kind === 'increase' ? (['anna', 'approver'] as const) : (['olga', 'operator'] as const)
      const ctx = core?.command(actor, role, key)
      const work = () => {
        if (kind === 'pause') return pauseCampaign(ctx!, input)
        if (kind === 'resume') return resumeCampaign(ctx!, input)
        if (kind === 'end') return endCampaign(ctx!, input)
        return increaseCampaign(ctx!, { ...input, amount: 'amount' in happening ? happening.amount : 1 })
      }
      try {
        const done = core && (await Promise.race([core.run('http', work), this.scheduler.sleep(8_000)]))
        this.network.note(`!! operator: ${kind} → ${done?.answer.state ?? 'no answer'}`)
        if (done !== undefined) return
      } catch (error) {
        this.network.note(`!! operator: ${kind} → ${(error as Error).message}`)
        if ((error as Error).name === 'Refused') return
      }
      await this.scheduler.sleep(700)
    }
  }

  /**
   * What an operator does where the guardian doesn't: campaigns that are not ACTIVE get no rebuild by themselves, and
   * one whose ledger has promised more than a bucket was given waits for a person's word.
   * @returns whether every gate is there.
   */
  async rebuild(): Promise<boolean> {
    const gently = await this.#rebuildBy(false)
    if (!gently.includes('unbalanced')) return gently.every((outcome) => done.has(outcome))
    return (await this.#rebuildBy(true)).every((outcome) => done.has(outcome))
  }

  async #rebuildBy(force: boolean): Promise<string[]> {
    const core = this.someCore()
    if (core === undefined) return ['none']
    const { deps } = core.command('olga', 'operator', 'rebuild')
    const by = { actor: 'olga', role: 'operator', reason: 'Redis lost something', force }
    let rebuilt: Awaited<ReturnType<typeof rebuildCampaign>>
    try {
      rebuilt = await core.run('http', () => rebuildCampaign(deps, this.campaignId, by))
    } catch (error) {
      this.network.note(`!! operator: rebuild → ${(error as Error).message}`)
      return ['failed']
    }
    const said = rebuilt.map(({ bucket, outcome }) => `${bucket} ${outcome}`).join(', ')
    this.network.note(`!! operator: rebuild${force ? ' --force' : ''} → ${said}`)
    return rebuilt.map(({ outcome }) => outcome)
  }
}

const done = new Set(['rebuilt', 'not_needed'])
