/// <reference types="node" />
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { CampaignView } from '../../../schema/view.ts'
import { minute, refusal, startsAt, viewOf } from './machine.fixture.ts'
import { nextMoment, step } from './machine.ts'
import { type Happening, start } from './model.ts'

const at = startsAt + minute
const code = fc.constantFrom(
  ...['SOLD_OUT', 'LIMIT_REACHED', 'NOT_STARTED', 'TOKEN_USED', 'IDEMPOTENCY_MISMATCH', 'ENDED', 'VOIDED'],
  ...[
    'NOT_ELIGIBLE',
    'TOKEN_INVALID',
    'TOKEN_EXPIRED',
    'UNAUTHENTICATED',
    'CAMPAIGN_NOT_FOUND',
    'RATE_LIMITED',
  ],
  ...['PAUSED', 'BUSY', 'NOT_READY', 'OUTCOME_UNKNOWN', 'UNAVAILABLE', 'CHALLENGE_REQUIRED', '400'],
)
const anything: fc.Arbitrary<Happening> = fc.oneof(
  fc.record({
    type: fc.constant('view' as const),
    view: fc
      .constantFrom('upcoming', 'open', 'paused', 'sold_out', 'ended')
      .map((availability) => viewOf({ availability: availability as CampaignView['availability'] })),
  }),
  fc.constantFrom<Happening>(
    { type: 'view_lost' },
    { type: 'login', signedIn: true },
    { type: 'login', signedIn: false },
    { type: 'relogin', renewed: true },
    { type: 'relogin', renewed: false },
    { type: 'due' },
    { type: 'press' },
    { type: 'another' },
    { type: 'online' },
    { type: 'lost', sent: true },
    { type: 'lost', sent: false },
    { type: 'challenge_solved', answer: 'a' },
    { type: 'challenge_expired' },
    { type: 'challenge_failed' },
    { type: 'challenge_passed' },
    { type: 'accepted', at },
    { type: 'settled', settled: { status: 'DELIVERED', coupon: { couponId: 'k' } } },
    { type: 'settled', settled: { status: 'REJECTED', reason: 'REJECTED_QUOTA' } },
    { type: 'settled', settled: { status: 'REVIEW' } },
    { type: 'resume', kept: { pending: true, unheard: true, owned: 0 } },
  ),
  code.map((each) => refusal(each)),
)

test('property: whatever happens, a claim goes out only for a press, and no timer spins', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(anything, fc.nat(20_000)), { maxLength: 40 }), (story) => {
      let model = start
      let now = startsAt - 30_000
      for (const [happening, pause] of story) {
        now += pause
        const [next, effects] = step(model, happening, { now, random: 0.5 })
        for (const effect of effects)
          if (effect.type === 'claim') assert.ok(next.pending, 'a claim nobody pressed')
        model = next
        const moment = nextMoment(model)
        if (moment === undefined) continue
        // What a timer at that moment does must move something, or the timer would fire for ever.
        const then = Math.max(now, moment)
        const [after, done] = step(model, { type: 'due' }, { now: then, random: 0.5 })
        const following = nextMoment(after)
        assert.ok(done.length > 0 || following === undefined || following > then, `${model.phase} spins`)
      }
    }),
    { numRuns: 5000 },
  )
})
