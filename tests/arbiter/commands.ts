import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { type ClaimArgs, claim } from '../../lua/claim.ts'
import { beginRebuild, finishRebuild, loadRecords } from '../../lua/rebuild.ts'
import type { ScriptRunner } from '../../lua/runner.ts'
import { compensate, configure, inspect, prime, renewLease, settle, snapshot } from '../../lua/stock.ts'
import { deposit, withdraw } from '../../lua/transfer.ts'
import { requestIdOf } from '../../schema/acceptance.ts'
import { decisionOf } from '../../schema/decision.ts'
import {
  BucketModel,
  type ModelAcceptance,
  type ModelClaim,
  type ModelConfig,
  type ModelEntry,
} from './model.ts'

/** The window of every sequence; instants are chosen around its borders. */
const startsAtMs = 1_800_000_000_000
const endsAtMs = startsAtMs + 10_000

const instant = fc.oneof(
  fc.constantFrom(startsAtMs - 1, startsAtMs, startsAtMs + 1, endsAtMs - 1, endsAtMs, endsAtMs + 1),
  fc.integer({ min: startsAtMs, max: endsAtMs - 1 }),
)
const user = fc.constantFrom(
  'u',
  'v',
  'w',
  'x',
  '用户:1',
  'a"b\\c',
  '{c0:0}',
  '\u0000',
  '👩‍👩‍👧 ',
  'z'.repeat(256),
)
const claimArbitrary = fc.record({
  user,
  key: fc.constantFrom('key-----1', 'key-----2', 'key-----3', 'key-----4'),
  params: fc.constantFrom('par1', 'par1', 'par1', 'par2'),
  token: fc.constantFrom('token---1', 'token---2', 'token---3', 'token---4'),
  held: fc.constantFrom(false, false, false, true),
})
const configArbitrary = fc.record({
  step: fc.constantFrom(-1, 0, 1, 1, 1, 2),
  state: fc.constantFrom('ACTIVE', 'ACTIVE', 'ACTIVE', 'ACTIVE', 'PAUSED', 'ENDED', 'VOIDED'),
  ruleVersion: fc.integer({ min: 1, max: 3 }),
  perUserLimit: fc.constantFrom(1, 1, 2, 3, 100),
  drip: fc.option(
    fc.record({
      initial: fc.integer({ min: 0, max: 3 }),
      atMs: fc.integer({ min: startsAtMs, max: endsAtMs }),
      everyMs: fc.integer({ min: 1, max: 4000 }),
      amount: fc.integer({ min: 1, max: 3 }),
    }),
    { nil: undefined },
  ),
  pace: fc.option(
    fc.record({ perSecond: fc.integer({ min: 1, max: 7 }), burst: fc.integer({ min: 1, max: 5 }) }),
    { nil: undefined },
  ),
})

const commandArbitrary = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant('claim' as const),
      at: instant,
      claims: fc.array(claimArbitrary, { minLength: 1, maxLength: 12 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('configure' as const), config: configArbitrary }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('renew' as const),
      at: instant,
      leaseMs: fc.constantFrom(0, 1, 3000, 20_000, 20_000),
      final: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      entries: fc.integer({ min: 1, max: 4 }),
      outcomes: fc.array(fc.constantFrom('D' as const, 'D' as const, 'X' as const, 'V' as const), {
        minLength: 1,
        maxLength: 5,
      }),
      again: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('compensate' as const), which: fc.nat(40) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('move' as const),
      id: fc.constantFrom('t1', 't2', 't3', 't4', 't5', 't6', 't7', 't8'),
      amount: fc.integer({ min: -4, max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('rebuild' as const), drainFirst: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('prime' as const), amount: fc.integer({ min: 0, max: 9 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('flush' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('inspect' as const), user }) },
)

type Command = typeof commandArbitrary extends fc.Arbitrary<infer C> ? C : never

/** Mostly starts with an open gate, so that the sequences reach far; now and then with none. */
export const commandsArbitrary: fc.Arbitrary<Command[]> = fc
  .tuple(
    fc.constantFrom(0, 1, 3, 8, 20),
    fc.integer({ min: 0, max: 9 }),
    fc.array(commandArbitrary, { minLength: 1, maxLength: 98, size: 'max' }),
  )
  .map(([amount, dice, rest]) => {
    if (dice === 0) return rest
    return [
      { kind: 'prime' as const, amount },
      { kind: 'renew' as const, at: startsAtMs, leaseMs: 20_000, final: dice > 2 },
      ...rest,
    ]
  })

/** Runs commands against the model and the real scripts side by side and compares after each. */
export class Interpreter {
  readonly #runner: ScriptRunner
  readonly #redis: Redis
  readonly #bucket: { campaignId: string; bucket: number }
  readonly #seen: Map<string, number>
  readonly #model = new BucketModel()
  readonly #entryIds = new Map<ModelEntry, string>()
  #lastSettled: {
    ids: string[]
    settlements: { userId: string; requestId: string; state: 'D' | 'X' | 'V' }[]
  } = {
    ids: [],
    settlements: [],
  }
  #claims = 0
  #highestEpoch = 1

  constructor(runner: ScriptRunner, redis: Redis, campaignId: string, seen: Map<string, number>) {
    this.#runner = runner
    this.#redis = redis
    this.#bucket = { campaignId, bucket: 0 }
    this.#seen = seen
  }

  async clear(): Promise<void> {
    await this.#redis.flushdb()
  }

  #note(what: string): void {
    this.#seen.set(what, (this.#seen.get(what) ?? 0) + 1)
  }

  async step(command: Command): Promise<void> {
    switch (command.kind) {
      case 'claim':
        await this.#claim(command.claims, command.at)
        break
      case 'configure': {
        const { step, ...config } = command.config
        const base = this.#model.gate?.config.configVersion ?? 1
        const next = withoutUndefined({
          ...config,
          configVersion: Math.max(base + step, 0),
          startsAtMs,
          endsAtMs,
        })
        const outcome = this.#model.configure(next)
        assert.equal(await configure(this.#runner, this.#bucket, next), outcome)
        this.#note(`configure ${outcome}`)
        break
      }
      case 'renew': {
        const there = this.#model.renewLease(command.leaseMs, command.final, command.at)
        const lease = await renewLease(this.#runner, this.#bucket, command.leaseMs, command.final, command.at)
        assert.equal(lease !== undefined, there)
        if (lease) assert.equal(lease.leaseUntilMs, command.at + command.leaseMs)
        break
      }
      case 'settle':
        await this.#settle(command.entries, command.outcomes, command.again)
        break
      case 'compensate':
        await this.#compensate(command.which)
        break
      case 'move': {
        const expected = this.#model.move(command.id, command.amount)
        const move = command.amount < 0 ? withdraw : deposit
        const got = await move(this.#runner, this.#bucket, command.id, Math.abs(command.amount))
        assert.deepEqual(got, expected)
        this.#note(`move ${expected.outcome}`)
        break
      }
      case 'rebuild':
        await this.#rebuild(command.drainFirst)
        break
      case 'prime': {
        const config: ModelConfig = {
          configVersion: 1,
          state: 'ACTIVE',
          ruleVersion: 1,
          startsAtMs,
          endsAtMs,
          perUserLimit: 1,
        }
        const stock = { epoch: this.#highestEpoch, amount: command.amount, final: true }
        const outcome = this.#model.prime(config, stock)
        assert.equal(await prime(this.#runner, this.#bucket, config, stock), outcome)
        this.#note(`prime ${outcome}`)
        break
      }
      case 'flush':
        await this.#redis.script('FLUSH')
        break
      case 'inspect': {
        const got = await inspect(this.#runner, this.#bucket, command.user)
        assert.deepEqual(
          got?.map(({ requestId, state }) => [requestId, state]),
          this.#model.gate &&
            this.#model.acceptances
              .filter((a) => a.user === command.user)
              .map((a) => [requestIdOfModel(a), a.state]),
        )
        break
      }
    }
    await this.#compare()
  }

  async #claim(bare: readonly Omit<ModelClaim, 'random'>[], at: number): Promise<void> {
    const claims = bare.map((one) => ({ ...one, random: `0${String(this.#claims++).padStart(12, '0')}` }))
    const args = claims.map(
      ({ user, random, key, params, token, held }): ClaimArgs => ({
        userId: user,
        packed: `${random}${key}${params}${token}${held ? 'V' : 'A'}`,
      }),
    )
    const before = this.#model.log.length
    const expected = this.#model.claims(claims, at)
    const reply = await claim(this.#runner, this.#bucket, args, at)
    assert.deepEqual(
      reply.verdicts.map(({ decision, requestId }) => [decision, requestId]),
      expected.verdicts.map(({ letter, acceptance }) => [
        decisionOf(letter),
        acceptance && requestIdOfModel(acceptance),
      ]),
    )
    for (const { letter } of expected.verdicts) this.#note(`claim ${letter}`)
    assert.equal(reply.retryAfterMs, expected.retryAfterMs, 'retry')
    const gate = this.#model.gate
    if (gate) {
      assert.deepEqual(
        [reply.epoch, reply.remaining, reply.leaseUntilMs, reply.nowMs, reply.startsAtMs, reply.endsAtMs],
        [gate.epoch, this.#model.remaining, gate.leaseUntilMs, at, startsAtMs, endsAtMs],
      )
    }
    if (this.#model.log.length > before) {
      const now = await snapshot(this.#runner, this.#bucket, at)
      this.#entryIds.set(this.#model.log.at(-1)!, now!.watermark)
    }
  }

  async #settle(count: number, outcomes: readonly ('D' | 'X' | 'V')[], again: boolean): Promise<void> {
    if (again) {
      // A crash between the ledger's commit and the acknowledgement: the same settlement once more.
      const { ids, settlements } = this.#lastSettled
      if (ids.length === 0 || !this.#model.gate) return
      const got = await settle(this.#runner, this.#bucket, ids, settlements)
      const open = settlements.filter((one) => {
        const held = this.#model.acceptances.find((a) => requestIdOfModel(a) === one.requestId)
        return held?.state === 'V' && one.state !== 'V'
      })
      for (const one of open) {
        this.#model.acceptances.find((a) => requestIdOfModel(a) === one.requestId)!.state = one.state
      }
      assert.equal(got.settled, open.length)
      return
    }
    const entries = this.#model.log.slice(0, count)
    if (entries.length === 0) return
    const ids = entries.map((entry) => this.#entryIds.get(entry)!)
    const all = entries.flatMap((entry) => entry.acceptances)
    const settlements = all.map((a, i) => ({
      userId: a.user,
      requestId: requestIdOfModel(a),
      state: outcomes[i % outcomes.length]!,
    }))
    const recorded = all.every((a) => this.#model.acceptances.includes(a))
    const expected = this.#model.settle(entries, outcomes)
    const got = await settle(this.#runner, this.#bucket, ids, settlements)
    if (recorded) assert.deepEqual(got, { settled: expected.settled, missing: 0 })
    else assert.deepEqual(got, { settled: 0, missing: all.length })
    this.#lastSettled = { ids, settlements }
  }

  async #compensate(which: number): Promise<void> {
    const acceptance = this.#model.acceptances[which]
    const outcome = this.#model.compensate(acceptance)
    const requestId = acceptance ? requestIdOfModel(acceptance) : requestIdOf('0000000000000000nobody')
    const got = await compensate(this.#runner, this.#bucket, acceptance?.user ?? 'u', requestId)
    assert.equal(got, outcome)
    this.#note(`compensate ${outcome}`)
  }

  /** What the core does after a loss: close, drain the rest of the log (or not), load records, open again. */
  async #rebuild(drainFirst: boolean): Promise<void> {
    const { gate, log } = this.#model
    if (!gate) return
    const { epoch, allocated, config, final } = gate
    assert.equal(await beginRebuild(this.#runner, this.#bucket), log.length)
    const kept = this.#model.beginRebuild()
    if (drainFirst) await this.#settle(log.length, ['D'], false)
    const byUser = Map.groupBy(kept, (a) => a.user)
    const records = [...byUser].map(([name, list]) => [name, list.map(packedOf).join('')] as const)
    assert.equal(await loadRecords(this.#runner, this.#bucket, records), 'loaded')
    this.#model.acceptances = kept
    const returned = kept.filter((a) => a.state === 'R').length
    const stock = {
      epoch: epoch + 1,
      allocated,
      remaining: allocated - kept.length + returned,
      accepted: kept.length,
      settled: kept.filter((a) => 'DXR'.includes(a.state)).length,
      returned,
      final,
      moves: [...this.#model.moves],
    }
    const outcome = this.#model.log.length > 0 ? 'unsettled' : 'rebuilt'
    assert.equal(await finishRebuild(this.#runner, this.#bucket, config, stock), outcome)
    this.#note(`rebuild ${outcome}`)
    if (outcome === 'rebuilt') {
      this.#model.gate = {
        config,
        epoch: epoch + 1,
        allocated,
        leaseFromMs: 0,
        leaseUntilMs: 0,
        final,
        pace: undefined,
      }
    } else {
      this.#highestEpoch = epoch + 1
    }
  }

  async #compare(): Promise<void> {
    const got = await snapshot(this.#runner, this.#bucket, startsAtMs)
    const { gate } = this.#model
    assert.equal(got !== undefined, gate !== undefined)
    if (!got || !gate) return
    const model = this.#model
    assert.deepEqual(
      {
        state: got.state,
        epoch: got.epoch,
        configVersion: got.configVersion,
        ruleVersion: got.ruleVersion,
        allocated: got.allocated,
        remaining: got.remaining,
        accepted: got.accepted,
        settled: got.settled,
        returned: got.returned,
        leaseUntilMs: got.leaseUntilMs,
        final: got.final,
        users: got.users,
        entries: got.entries,
      },
      {
        state: gate.config.state,
        epoch: gate.epoch,
        configVersion: gate.config.configVersion,
        ruleVersion: gate.config.ruleVersion,
        allocated: gate.allocated,
        remaining: model.remaining,
        accepted: model.acceptances.length,
        settled: model.settled,
        returned: model.returned,
        leaseUntilMs: gate.leaseUntilMs,
        final: gate.final,
        users: new Set(model.acceptances.map((a) => a.user)).size,
        entries: model.log.length,
      },
    )
    // Invariants 2, 6 and 9 of DESIGN §3, as far as one bucket goes.
    assert.ok(got.remaining >= 0)
    assert.equal(got.allocated, got.remaining + got.accepted - got.returned)
  }
}

function requestIdOfModel(acceptance: ModelAcceptance): string {
  return requestIdOf(timeText(acceptance.atMs) + acceptance.random)
}

function packedOf(a: ModelAcceptance): string {
  return timeText(a.atMs) + a.random + a.key + a.params + a.token + a.state
}

/** 48 bits in ASCII-ordered base 64, spelled out here once more on purpose: the model shares no code. */
function timeText(ms: number): string {
  const digits = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
  let text = ''
  for (let i = 7n; i >= 0n; i--) text += digits[Number((BigInt(ms) >> (6n * i)) & 63n)]
  return text
}

function withoutUndefined<T extends object>(value: T): ModelConfig {
  return Object.fromEntries(
    Object.entries(value).filter(([, v]) => v !== undefined),
  ) as unknown as ModelConfig
}
