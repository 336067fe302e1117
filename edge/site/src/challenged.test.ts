/// <reference types="node" />
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isChallenge } from './challenged.ts'
import { endsAt, minute, refusal, run, signedIn, startsAt, view } from './machine.fixture.ts'
import { nextMoment, step } from './machine.ts'
import { type Happening, type Model, start } from './model.ts'
import { screenOf } from './screen.ts'

/** The check before the claim token, as the machine sees it. */

const early = startsAt - 4 * minute
const at = startsAt + minute
const asks = refusal('CHALLENGE_REQUIRED', { siteKey: 'key', action: 'claim-token' })
const solved: Happening = { type: 'challenge_solved', answer: 'a1' }
const passed: Happening = { type: 'challenge_passed' }
const press: Happening = { type: 'press' }
const waiting = () => run(early, [signedIn, view({ availability: 'upcoming' }), asks]).model

test('a check asked for before the opening is shown then, and the button waits for its reader afterwards', () => {
  const shown = waiting()
  assert.equal(shown.phase, 'challenge')
  assert.deepEqual(shown.challenge, {
    siteKey: 'key',
    action: 'claim-token',
    round: 1,
    why: 'first',
    checking: false,
  })
  const sent = run(early, [solved], shown)
  assert.deepEqual(sent.effects, ['answer'])
  const done = run(early, [passed], sent.model)
  assert.deepEqual([done.model.phase, done.model.challenge, done.effects], ['upcoming', undefined, []])
})

test('the opening may pass while the check is shown: nothing is lost, and nothing is claimed unasked', () => {
  const shown = run(at, [{ type: 'due' }, view({ availability: 'open' })], waiting())
  assert.deepEqual([shown.model.phase, shown.model.challenge?.round], ['challenge', 1])
  const done = run(at, [solved, passed], shown.model)
  assert.deepEqual([done.model.phase, done.effects], ['open', []])
})

test('a claim pressed before goes out by itself once the check is passed', () => {
  const shown = run(at, [signedIn, view(), press, asks]).model
  assert.deepEqual([shown.phase, shown.pending], ['challenge', true])
  const done = run(at, [solved, passed], shown)
  assert.deepEqual([done.model.phase, done.effects], ['sending', ['claim']])
  const unheard = run(at, [solved, passed], { ...shown, unheard: true })
  assert.equal(unheard.model.phase, 'unknown', 'an answer that got lost before is still awaited')
})

test('an answer that isn’t believed brings a fresh check; the third one a rest, and then another', () => {
  let model = waiting()
  for (const round of [2, 3]) {
    model = run(early, [solved, asks], model).model
    assert.deepEqual(
      [model.phase, model.challenge?.why, model.challenge?.round],
      ['challenge', 'wrong', round],
    )
  }
  model = run(early, [solved, asks], model).model
  assert.deepEqual([model.phase, model.retryAt], ['challenge_over', early + 30_000])
  for (const happening of [press, { type: 'online' }, solved] as Happening[])
    assert.equal(run(early + 1_000, [happening], model).model, model)
  const again = run(early + 30_000, [{ type: 'due' }], model).model
  assert.deepEqual([again.phase, again.challengeTries], ['challenge', 0])
})

test('a check that ran out is asked for anew, and does not count as a wrong one', () => {
  const { model } = run(early, [{ type: 'challenge_expired' }], waiting())
  assert.deepEqual([model.phase, model.challenge?.why, model.challengeTries], ['challenge', 'expired', 0])
})

test('a check that can’t be loaded says so, and comes back by hand or with the network', () => {
  const lost = run(early, [{ type: 'challenge_failed' }], waiting()).model
  assert.equal(lost.phase, 'challenge_lost')
  for (const happening of [press, { type: 'online' }] as Happening[]) {
    const { model, effects } = run(early, [happening], lost)
    assert.deepEqual([model.phase, model.challenge?.round, effects], ['challenge', 2, []])
  }
})

test('an answer that nobody judged is no wrong one: the page asks for the token again', () => {
  const sent = run(early, [solved], waiting()).model
  for (const [happening, phase] of [
    [{ type: 'lost', sent: false }, 'offline'],
    [refusal('UNAVAILABLE', { retryAfterMs: 5_000 }), 'busy'],
    [refusal('RATE_LIMITED', { retryAfterMs: 5_000 }), 'busy'],
  ] as [Happening, string][]) {
    const { model } = run(early, [happening], sent)
    assert.deepEqual([model.phase, model.challenge, model.challengeTries], [phase, undefined, 0])
    const look = run(model.retryAt!, [{ type: 'due' }], model)
    assert.deepEqual(look.effects, ['look'])
    assert.equal(run(early, [view({ availability: 'upcoming' })], look.model).model.phase, 'upcoming')
  }
})

test('what ends the campaign ends the check, and a late demand for one disturbs nothing', () => {
  assert.equal(run(early, [view({ availability: 'sold_out' })], waiting()).model.phase, 'sold_out')
  assert.equal(nextMoment(waiting()), endsAt)
  assert.equal(run(endsAt, [{ type: 'due' }], waiting()).model.phase, 'ended')
  assert.equal(run(early, [{ type: 'login', signedIn: false }], waiting()).model.phase, 'signed_out')
  const sent = run(early, [solved], waiting()).model
  assert.equal(run(early, [refusal('NOT_ELIGIBLE')], sent).model.phase, 'not_eligible')
  const had = run(at, [signedIn, view(), press, { type: 'accepted', at }]).model
  assert.equal(run(at, [asks], had).model, had)
})

const anything: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 3, arbitrary: fc.constant(asks) },
  { weight: 3, arbitrary: fc.constant(solved) },
  fc.constantFrom<Happening>(
    passed,
    { type: 'challenge_expired' },
    { type: 'challenge_failed' },
    { type: 'due' },
    press,
    { type: 'online' },
    { type: 'lost', sent: false },
    { type: 'lost', sent: true },
    signedIn,
    { type: 'login', signedIn: false },
    { type: 'relogin', renewed: true },
    { type: 'relogin', renewed: false },
    { type: 'accepted', at },
    { type: 'settled', settled: { status: 'REJECTED', reason: 'REJECTED_QUOTA' } },
    { type: 'resume', kept: { pending: true, unheard: false, owned: 0 } },
  ),
  fc
    .constantFrom('upcoming' as const, 'open' as const, 'paused' as const, 'sold_out' as const)
    .map((availability) => view({ availability })),
  fc
    .constantFrom('UNAVAILABLE', 'RATE_LIMITED', 'UNAUTHENTICATED', 'NOT_STARTED', 'TOKEN_EXPIRED', 'ENDED')
    .map((code) => refusal(code)),
)

/** What must hold after every step, with what came before it. */
function assertSound(before: Model, happening: Happening, after: Model, effects: string[]): void {
  const told = `${before.phase} · ${happening.type} · ${after.phase}`
  assert.equal(after.challenge !== undefined, isChallenge(after.phase), `${told}: check and phase disagree`)
  assert.ok(after.challengeTries < 3, `${told}: more than three tries without a rest`)
  if (effects.includes('claim')) assert.ok(after.pending, `${told}: a claim nobody pressed`)
  if (effects.includes('answer')) {
    assert.equal(happening.type, 'challenge_solved', `${told}: an answer from nowhere`)
    assert.ok(before.challenge?.checking === false && after.challenge?.checking, `${told}: answered twice`)
  }
  // No answer comes of waiting then: the widget is there, or the page says how it comes back.
  if (after.phase === 'challenge_over')
    assert.ok(after.retryAt !== undefined, `${told}: a rest without an end`)
  if (after.phase === 'challenge_lost') assert.ok(run(at, [press], after).model.phase === 'challenge', told)
  const around = { now: at, language: 'en' as const, deviceAhead: 0, returnTo: '/' }
  assert.doesNotMatch(JSON.stringify(screenOf(after, around).status), /\{\w+\}|NaN/, told)
}

test('property: whatever happens, a check is answered once, tried three times at most, and never a dead end', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(anything, fc.nat(20_000)), { maxLength: 40, size: 'max' }), (story) => {
      let now = early
      let model = run(now, [signedIn, view({ availability: 'upcoming' })], start).model
      for (const [happening, pause] of story) {
        now += pause
        const [next, effects] = step(model, happening, { now, random: 0.5 })
        assertSound(
          model,
          happening,
          next,
          effects.map(({ type }) => type),
        )
        model = next
      }
    }),
    { numRuns: 2000 },
  )
})
