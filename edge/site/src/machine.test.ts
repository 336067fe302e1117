/// <reference types="node" />
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endsAt, minute, refusal, run, signedIn, startsAt, view, viewOf } from './machine.fixture.ts'
import { mayHaveAnother, nextMoment, step } from './machine.ts'
import type { Happening, Phase } from './model.ts'

const press: Happening = { type: 'press' }
const at = startsAt + minute
const pressed = () => run(at, [signedIn, view(), press]).model

test('the page mirrors the campaign until the reader acts', () => {
  const shown = (now: number, ...happenings: Happening[]) => run(now, happenings).model.phase
  assert.equal(shown(startsAt - 1, signedIn, view({ availability: 'upcoming' })), 'upcoming')
  assert.equal(
    shown(startsAt, signedIn, view({ availability: 'upcoming' })),
    'open',
    'an older view is no obstacle',
  )
  assert.equal(shown(at, signedIn, view()), 'open')
  assert.equal(shown(at, signedIn, view({ availability: 'paused' })), 'paused')
  assert.equal(shown(at, signedIn, view({ availability: 'sold_out' })), 'sold_out')
  assert.equal(shown(at, signedIn, view({ availability: 'ended' })), 'ended')
  assert.equal(shown(endsAt, signedIn, view()), 'ended')
  assert.equal(shown(at, { type: 'login', signedIn: false }, view()), 'signed_out')
  assert.equal(shown(at, { type: 'login', signedIn: false }, view({ availability: 'ended' })), 'ended')
  assert.equal(shown(at, view()), 'loading', 'nothing is said before it is known who reads')
})

test('the button comes alive at the start by itself, and the offer ends by itself', () => {
  const early = run(startsAt - 5_000, [signedIn, view({ availability: 'upcoming' })]).model
  assert.equal(nextMoment(early), startsAt)
  assert.equal(run(startsAt - 1, [{ type: 'due' }], early).model.phase, 'upcoming')
  const open = run(startsAt, [{ type: 'due' }], early).model
  assert.equal(open.phase, 'open')
  assert.equal(run(nextMoment(open)!, [{ type: 'due' }], open).model.phase, 'ended')
})

test('a press claims once, and no second press does anything', () => {
  const first = run(at, [signedIn, view(), press])
  assert.deepEqual([first.model.phase, first.effects], ['sending', ['claim']])
  const second = run(at, [press], first.model)
  assert.equal(second.model, first.model)
  assert.deepEqual(second.effects, [])
})

test('an acceptance is watched, is called slow after 10 s, and ends as delivered', () => {
  const accepted = run(at, [{ type: 'accepted', at }], pressed())
  assert.deepEqual([accepted.model.phase, accepted.effects], ['accepted', ['watch']])
  assert.equal(nextMoment(accepted.model), at + 10_000)
  const slow = run(at + 10_000, [{ type: 'due' }], accepted.model).model
  assert.equal(slow.phase, 'slow')
  const coupon = { couponId: 'k1', validUntil: '2027-01-04T00:00:00Z' }
  const done = run(at, [{ type: 'settled', settled: { status: 'DELIVERED', coupon } }], slow).model
  assert.deepEqual([done.phase, done.coupon, done.owned, done.pending], ['delivered', coupon, 1, false])
})

test('an entry into a draw is not called a coupon on its way', () => {
  const entered = run(at, [signedIn, view({ mode: 'ballot' }), press, { type: 'accepted', at }])
  assert.deepEqual([entered.model.phase, entered.effects], ['entered', ['watch']])
})

test('every final refusal has its own phase and stops all trying', () => {
  const expected: Record<string, Phase> = {
    SOLD_OUT: 'sold_out',
    LIMIT_REACHED: 'limit_reached',
    ENDED: 'ended',
    VOIDED: 'withdrawn',
    NOT_ELIGIBLE: 'not_eligible',
    CAMPAIGN_NOT_FOUND: 'missing',
    INVALID_REQUEST: 'failed',
    IDEMPOTENCY_MISMATCH: 'failed',
  }
  for (const [code, phase] of Object.entries(expected)) {
    const { model } = run(at, [refusal(code)], pressed())
    assert.deepEqual([model.phase, model.pending, model.retryAt], [phase, false, undefined], code)
  }
})

test('a rejection after the acceptance says why, and the next claim gets a new key', () => {
  const accepted = run(at, [{ type: 'accepted', at }], pressed()).model
  const expected: Record<string, Phase> = {
    REJECTED_QUOTA: 'sold_out',
    REJECTED_DUPLICATE: 'limit_reached',
    REJECTED_INELIGIBLE: 'not_eligible',
    REJECTED_NOT_CHOSEN: 'not_chosen',
    REJECTED_CANCELLED: 'withdrawn',
    REJECTED_BY_OPERATOR: 'rejected',
  }
  for (const [reason, phase] of Object.entries(expected)) {
    const { model, effects } = run(
      at,
      [{ type: 'settled', settled: { status: 'REJECTED', reason } }],
      accepted,
    )
    assert.deepEqual([model.phase, effects], [phase, ['forget']], reason)
  }
})

test('busy, not ready, rate limited and paused try again by themselves, never sooner than asked', () => {
  for (const [code, phase] of [
    ['BUSY', 'busy'],
    ['NOT_READY', 'busy'],
    ['RATE_LIMITED', 'busy'],
    ['UNAVAILABLE', 'busy'],
    ['PAUSED', 'paused'],
    ['OUTCOME_UNKNOWN', 'unknown'],
  ] as const) {
    const { model } = run(at, [refusal(code, { retryAfterMs: 3_000 })], pressed())
    assert.equal(model.phase, phase, code)
    assert.equal(model.retryAt, at + 3_000)
    assert.deepEqual(run(at + 2_999, [{ type: 'due' }], model).effects, [])
    const again = run(at + 3_000, [{ type: 'due' }], model)
    assert.deepEqual(again.effects, ['claim'])
    assert.equal(again.model.phase, code === 'OUTCOME_UNKNOWN' ? 'unknown' : 'sending')
  }
})

test('a lost answer stays unknown until a final one, whatever sheds the retries', () => {
  const lost = run(at, [{ type: 'lost', sent: true }], pressed()).model
  assert.equal(lost.phase, 'unknown')
  const shed = run(at + 20_000, [{ type: 'due' }, refusal('BUSY')], lost).model
  assert.equal(shed.phase, 'unknown', 'shed before it was decided, so the first claim may still be accepted')
  assert.equal(run(at + 90_000, [{ type: 'due' }, { type: 'accepted', at }], shed).model.phase, 'slow')
})

test('a token that could not be fetched is no lost claim', () => {
  assert.equal(run(at, [{ type: 'lost', sent: false }], pressed()).model.phase, 'offline')
})

test('the network’s return brings a waiting try forward, spread over a second', () => {
  const lost = run(at, [{ type: 'lost', sent: true }], pressed(), 0.5).model
  assert.equal(run(at + 10, [{ type: 'online' }], lost, 0.5).model.retryAt, at + 510)
})

test('a refused token is replaced once under the same key, then the reader is asked', () => {
  for (const code of ['TOKEN_EXPIRED', 'TOKEN_INVALID', 'TOKEN_USED']) {
    const [model, effects] = step(pressed(), refusal(code), { now: at, random: 0 })
    assert.deepEqual(effects, [{ type: 'claim', renew: true }], code)
    const again = run(at, [refusal(code)], model)
    assert.deepEqual([again.model.phase, again.effects], ['failed', []])
    assert.deepEqual(run(at, [press], again.model).effects, ['claim'])
  }
})

test('a press that the server calls early is sent by the page at the start', () => {
  const { model } = run(startsAt - 400, [refusal('NOT_STARTED')], pressed(), 0.5)
  assert.deepEqual([model.phase, model.pending], ['upcoming', true])
  assert.ok(model.retryAt! >= startsAt && model.retryAt! <= startsAt + 500, `${model.retryAt! - startsAt}`)
  assert.deepEqual(run(model.retryAt!, [{ type: 'due' }], model).effects, ['claim'])
})

test('a start that was moved far away disables the button again', () => {
  const later = new Date(at + 60 * minute).toISOString()
  const far = viewOf({ ends_at: new Date(at + 600 * minute).toISOString() })
  const { model } = run(at, [refusal('NOT_STARTED', { startsAt: later })], { ...pressed(), view: far })
  assert.deepEqual([model.phase, model.pending, model.retryAt], ['upcoming', false, undefined])
  assert.equal(nextMoment(model), at + 60 * minute)
})

test('a login that ran out is renewed, and without a new one the claim waits for the sign-in', () => {
  const refused = run(at, [refusal('UNAUTHENTICATED')], pressed())
  assert.deepEqual(refused.effects, ['relogin'])
  assert.deepEqual(run(at, [{ type: 'relogin', renewed: true }], refused.model).effects, ['claim'])
  const out = run(at, [{ type: 'relogin', renewed: false }], refused.model).model
  assert.deepEqual([out.phase, out.pending], ['signed_out', true])
})

test('a reload goes on where it was: delivered, accepted, unheard, refused for now', () => {
  const kept = { pending: false, unheard: false, owned: 1 }
  const phaseOf = (more: object) =>
    run(at, [{ type: 'resume', kept: { ...kept, ...more } }, signedIn, view()]).model.phase
  assert.equal(phaseOf({ coupon: { couponId: 'k1' } }), 'delivered')
  assert.equal(phaseOf({ acceptedAt: at - 1_000 }), 'accepted')
  assert.equal(phaseOf({ acceptedAt: at - 11_000 }), 'slow')
  assert.equal(phaseOf({ pending: true, unheard: true }), 'unknown')
  assert.equal(phaseOf({ pending: true }), 'busy')
  assert.equal(phaseOf({}), 'open')
})

test('who may have several can get another one, under a new key', () => {
  const delivered: Happening = {
    type: 'settled',
    settled: { status: 'DELIVERED', coupon: { couponId: 'k' } },
  }
  const two = run(at, [signedIn, view({ per_user_limit: 2 }), press, delivered]).model
  assert.equal(mayHaveAnother(two), true)
  const next = run(at, [{ type: 'another' }], two)
  assert.deepEqual([next.model.phase, next.effects], ['open', ['forget']])
  assert.equal(mayHaveAnother(run(at, [press, delivered], next.model).model), false)
})

test('a paused campaign is looked at again with growing pauses, and at once by hand but not faster than 2 s', () => {
  const paused = run(at, [signedIn, view({ availability: 'paused' })]).model
  const first = paused.retryAt! - at
  assert.deepEqual(run(at + 1_999, [press], paused).effects, [])
  assert.deepEqual(run(at + 2_000, [press], paused).effects, ['look'])
  const again = run(paused.retryAt!, [{ type: 'due' }, view({ availability: 'paused' })], paused).model
  assert.ok(again.retryAt! - paused.retryAt! > first)
  assert.equal(run(at, [view()], paused).model.phase, 'open')
})

test('a view that can’t be had says so, and is asked for again', () => {
  assert.equal(run(at, [{ type: 'view_lost' }]).model.phase, 'offline')
  const busy = run(at, [{ type: 'view_lost', refused: { code: 'UNAVAILABLE', retryAfterMs: 5_000 } }]).model
  assert.deepEqual([busy.phase, busy.retryAt], ['busy', at + 5_000])
  assert.deepEqual(run(at + 5_000, [{ type: 'due' }], busy).effects, ['look'])
  assert.equal(run(at, [signedIn, view()], busy).model.phase, 'open')
  assert.equal(
    run(at, [{ type: 'view_lost', refused: { code: 'CAMPAIGN_NOT_FOUND' } }]).model.phase,
    'missing',
  )
})
