import assert from 'node:assert/strict'
import { afterEach, mock, test } from 'node:test'
import fc from 'fast-check'
import type { ClaimArgs } from '../lua/claim.ts'
import { ArbiterError, type ScriptRunner } from '../lua/runner.ts'
import { claimChars, packTime, requestIdOf } from '../schema/acceptance.ts'
import { decisions } from '../schema/decision.ts'
import { limits } from '../schema/limits.ts'
import { encodeSixbit } from '../schema/sixbit.ts'
import { bounds } from './bounds.ts'
import { GroupCommit, type Outcome } from './groupCommit.ts'

const bucket = { campaignId: 'c', bucket: 0 }
const decidedAtMs = 1_700_000_000_000
const letters = Object.values(decisions)
  .map(({ letter }) => letter)
  .filter((letter) => letter !== 'Y')

/** The arbiter's calls, answered when and how the test wants. */
class HeldCalls implements ScriptRunner {
  readonly open: { claims: string[]; resolve(reply: string): void; reject(error: unknown): void }[] = []
  readonly sent: string[] = []
  readonly sizes: number[] = []
  mostOpen = 0

  run(_: unknown, __: unknown, args: readonly string[]): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const n = (args.length - 1) / 2
    const claims = args.slice(1 + n)
    this.sent.push(...claims)
    this.sizes.push(n)
    const call = { claims, resolve, reject }
    this.open.push(call)
    this.mostOpen = Math.max(this.mostOpen, this.open.length)
    void promise.then(
      () => this.open.splice(this.open.indexOf(call), 1),
      () => this.open.splice(this.open.indexOf(call), 1),
    )
    return promise
  }

  /** Decides the oldest open call: each claim by its own name, so that a mix-up shows. */
  answer(at = 0): void {
    const call = this.open[at]!
    const line = call.claims.map(letterOf).join('')
    call.resolve(`1 5 9 ${decidedAtMs} 1 2 200\n${line}\n`)
  }
}

const letterOf = (packed: string) => letters[packed.charCodeAt(12) % letters.length]!
const claimNumber = (n: number): ClaimArgs => ({
  userId: `user ${n}`,
  packed: encodeSixbit(n, 13) + encodeSixbit(n, claimChars - 13),
})

/** Whether this is the outcome that the arbiter gave to just this claim. */
function assertOwn(outcome: Outcome, { packed }: ClaimArgs): void {
  assert.equal(outcome.kind, 'decided')
  assert.ok(outcome.kind === 'decided')
  const { decision, requestId } = outcome.verdict
  assert.equal(decisions[decision].letter, letterOf(packed))
  if (decision === 'ACCEPTED')
    assert.equal(requestId, requestIdOf(packTime(decidedAtMs) + packed.slice(0, 13)))
}

function gate(runner: ScriptRunner = new HeldCalls()) {
  const events: string[] = []
  const kept: Promise<unknown>[] = []
  const lifetime = { waitUntil: (work: Promise<unknown>) => void kept.push(work) }
  const group = new GroupCommit({ runner, log: (event) => void events.push(event), clock: () => Date.now() })
  return { group, events, kept, decide: (args: ClaimArgs) => group.decide(bucket, args, lifetime) }
}

const turns = async () => {
  for (let i = 0; i < 20; i++) await Promise.resolve()
}

afterEach(() => mock.timers.reset())

test('an idle gate sends a claim at once and alone', async () => {
  const calls = new HeldCalls()
  const { decide } = gate(calls)
  const outcome = decide(claimNumber(1))
  assert.deepEqual(calls.sizes, [1])
  calls.answer()
  assertOwn(await outcome, claimNumber(1))
})

test('what arrives while a call is in flight forms the next, of 64 at most, in order of arrival', async () => {
  // No call takes long here, however slow the machine.
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const calls = new HeldCalls()
  const { decide } = gate(calls)
  const outcomes = Array.from({ length: 64 }, (_, n) => decide(claimNumber(n)))
  assert.deepEqual(calls.sizes, [1])
  // A full one goes beside it, and a third never.
  for (let n = 64; n < 140; n++) outcomes.push(decide(claimNumber(n)))
  assert.deepEqual(calls.sizes, [1, 64])
  calls.answer()
  await turns()
  assert.deepEqual(calls.sizes, [1, 64, 64])
  calls.answer()
  await turns()
  calls.answer()
  await turns()
  assert.deepEqual(calls.sizes, [1, 64, 64, 11])
  calls.answer()
  for (const [n, outcome] of outcomes.entries()) assertOwn(await outcome, claimNumber(n))
  assert.deepEqual(
    calls.sent,
    Array.from({ length: 140 }, (_, n) => claimNumber(n).packed),
  )
})

test('a call that takes long keeps nobody from going beside it', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const calls = new HeldCalls()
  const { decide } = gate(calls)
  const outcomes = [decide(claimNumber(1)), decide(claimNumber(2))]
  mock.timers.tick(bounds.callIsSlowMs - 1)
  outcomes.push(decide(claimNumber(3)))
  assert.deepEqual(calls.sizes, [1])
  mock.timers.tick(1)
  outcomes.push(decide(claimNumber(4)))
  assert.deepEqual(calls.sizes, [1, 3])
  outcomes.push(decide(claimNumber(5)))
  mock.timers.tick(bounds.callIsSlowMs)
  outcomes.push(decide(claimNumber(6)))
  assert.deepEqual(calls.sizes, [1, 3])
  calls.answer(1)
  await turns()
  assert.deepEqual(calls.sizes, [1, 3, 2])
  calls.answer()
  calls.answer(1)
  for (const [n, outcome] of outcomes.entries()) assertOwn(await outcome, claimNumber(n + 1))
})

test('claims of different buckets never share a call', async () => {
  const calls = new HeldCalls()
  const { group } = gate(calls)
  const lifetime = { waitUntil: () => undefined }
  const outcomes = [0, 1, 2].map((n) =>
    group.decide({ campaignId: 'c', bucket: n }, claimNumber(n), lifetime),
  )
  assert.deepEqual(calls.sizes, [1, 1, 1])
  for (let i = 0; i < 3; i++) calls.answer(i)
  for (const [n, outcome] of outcomes.entries()) assertOwn(await outcome, claimNumber(n))
})

test('however calls and arrivals interleave, each claim is sent once at most and hears its own outcome', async () => {
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ arrive: fc.integer({ min: 1, max: 90 }) }) },
    { weight: 4, arbitrary: fc.record({ answer: fc.nat(1) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        fail: fc.constantFrom('refused' as const, 'unknown' as const, 'garbled' as const),
      }),
    },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const calls = new HeldCalls()
      const { decide } = gate(calls)
      const failed = new Map<string, string>()
      const outcomes: Promise<Outcome>[] = []
      for (const action of steps) {
        if ('arrive' in action)
          for (let i = 0; i < action.arrive; i++) outcomes.push(decide(claimNumber(outcomes.length)))
        else if ('answer' in action) {
          if (calls.open.length > 0) calls.answer(action.answer % calls.open.length)
        } else if (calls.open.length > 0) {
          for (const claim of calls.open[0]!.claims)
            failed.set(claim, action.fail === 'refused' ? 'busy' : 'unknown')
          calls.open[0]!.reject(new ArbiterError(action.fail, 'as told'))
        }
        await turns()
      }
      while (calls.open.length > 0) {
        calls.answer()
        await turns()
      }
      for (const [n, outcome] of outcomes.entries()) {
        const args = claimNumber(n)
        const expected = failed.get(args.packed)
        if (expected === undefined) assertOwn(await outcome, args)
        else assert.equal((await outcome).kind, expected)
      }
      assert.equal(new Set(calls.sent).size, calls.sent.length)
      assert.equal(calls.sent.length, outcomes.length)
      assert.ok(calls.mostOpen <= limits.callsInFlightMax)
      assert.ok(Math.max(0, ...calls.sizes) <= limits.claimsPerCallMax)
    }),
    { numRuns: 100 },
  )
})

test('at its deadline a claim whose call has no answer is unknown; one that was never sent is busy and stays unsent', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const calls = new HeldCalls()
  const { decide } = gate(calls)
  const outcomes = [decide(claimNumber(1))]
  mock.timers.tick(bounds.callIsSlowMs)
  outcomes.push(decide(claimNumber(2)), decide(claimNumber(3)))
  mock.timers.tick(limits.claimDeadlineMs)
  assert.deepEqual(
    (await Promise.all(outcomes)).map(({ kind }) => kind),
    ['unknown', 'unknown', 'busy'],
  )
  const late = decide(claimNumber(4))
  calls.answer()
  calls.answer(1)
  await turns()
  calls.answer()
  assertOwn(await late, claimNumber(4))
  assert.ok(!calls.sent.includes(claimNumber(3).packed))
})

test('a full queue says busy at once', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const calls = new HeldCalls()
  const { decide } = gate(calls)
  // One call of one claim, and a full one beside it.
  const inFlight = 1 + limits.claimsPerCallMax
  const outcomes = Array.from({ length: inFlight + limits.claimsWaitingMax }, (_, n) =>
    decide(claimNumber(n)),
  )
  assert.equal((await decide(claimNumber(9_999))).kind, 'busy')
  while (calls.open.length > 0) {
    calls.answer()
    await turns()
  }
  for (const [n, outcome] of outcomes.entries()) assertOwn(await outcome, claimNumber(n))
})

test('a failing call answers all of its claims: refused is busy, a lost or garbled answer is unknown; each is logged', async () => {
  const reasons = [
    [new ArbiterError('refused', 'OOM'), 'busy', 'arbiter_refused'],
    [new ArbiterError('unknown', 'no answer'), 'unknown', 'arbiter_unknown'],
    [new ArbiterError('garbled', 'not a text'), 'unknown', 'arbiter_garbled'],
    [new TypeError('a bug'), 'unknown', 'arbiter_garbled'],
  ] as const
  for (const [error, kind, event] of reasons) {
    const calls = new HeldCalls()
    const { decide, events } = gate(calls)
    const outcome = decide(claimNumber(1))
    calls.open[0]!.reject(error)
    assert.equal((await outcome).kind, kind)
    assert.deepEqual(events, [event])
  }
})

test('a reply that does not fit the call is unknown to all of its claims', async () => {
  const replies = [
    '',
    'x',
    `1 5 9 1 1 2 200\nAA\n`,
    `1 5 9 1 1 2 200\n?\n`,
    `1 5 9 1 1 2 200\nA\nsurplus`,
    '1\nA\n',
  ]
  for (const reply of replies) {
    const calls = new HeldCalls()
    const { decide } = gate(calls)
    const outcome = decide(claimNumber(1))
    calls.open[0]!.resolve(reply)
    assert.equal((await outcome).kind, 'unknown', JSON.stringify(reply))
  }
})

test('calls whose request died give their places back, and the next claims are decided', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const calls = new HeldCalls()
  const { decide, events } = gate(calls)
  const lost = [decide(claimNumber(1))]
  mock.timers.tick(bounds.callIsSlowMs)
  lost.push(decide(claimNumber(2)))
  mock.timers.tick(limits.claimDeadlineMs)
  await Promise.all(lost)
  const busy = decide(claimNumber(3))
  assert.equal(calls.sizes.length, 2)
  mock.timers.tick(limits.claimDeadlineMs)
  assert.equal((await busy).kind, 'busy')
  const next = decide(claimNumber(4))
  assert.equal(calls.sizes.length, 3)
  assert.deepEqual(events, ['arbitration_call_lost'])
  calls.answer(2)
  assertOwn(await next, claimNumber(4))
})

test('a call is kept alive after its leader’s client has left', async () => {
  const calls = new HeldCalls()
  const { decide, kept } = gate(calls)
  const outcome = decide(claimNumber(1))
  assert.equal(kept.length, 1)
  calls.answer()
  await Promise.all([outcome, ...kept])
})

test('when the claim that should lead next has died with its client, those behind it are decided all the same', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  const calls = new HeldCalls()
  const { decide } = gate(calls)
  const led = [decide(claimNumber(1))]
  mock.timers.tick(bounds.callIsSlowMs)
  led.push(decide(claimNumber(2)))
  // The dead request's part of the program never goes on.
  const dead = mock.method(Promise, 'withResolvers', () => ({
    promise: new Promise(() => undefined),
    resolve: () => undefined,
    reject: () => undefined,
  }))
  void decide(claimNumber(3))
  dead.mock.restore()
  const behind = decide(claimNumber(4))
  calls.answer()
  await led[0]
  await turns()
  mock.timers.tick(bounds.handOnMs)
  await turns()
  assert.deepEqual(calls.sent.slice(2), [claimNumber(3).packed, claimNumber(4).packed])
  calls.answer(1)
  assertOwn(await behind, claimNumber(4))
  calls.answer()
  await led[1]
})
