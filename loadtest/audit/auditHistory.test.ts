import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type AtRest, auditHistory } from './auditHistory.ts'
import { type Answer, fromLines, type HistoryEvent, type Operation, toLines } from './history.ts'

/** Histories with one fault planted in each: an auditor that finds nothing in them would prove nothing. */

const opening: HistoryEvent = { type: 'campaign', campaign_id: 'c1', starts_ms: 1_000, ends_ms: 100_000 }

const accepted = (request_id: string, more: Partial<Answer & { outcome: 'accepted' }> = {}): Answer => ({
  ...{ outcome: 'accepted', request_id, accepted_at_ms: 0, replayed: false },
  ...more,
})
const refused = (code: string): Answer => ({ outcome: 'refused', code })
const unknown: Answer = { outcome: 'unknown', why: 'OUTCOME_UNKNOWN' }

/** A claim of a user under their one key, from `at` on for 10 ms. */
function claim(user: string, at: number, answer: Answer, more: Partial<Operation> = {}): Operation {
  return {
    ...{ type: 'operation', process: 'p', user, operation: 'claim', key: `key of ${user}`, token: user },
    ...{ invoked_ms: at, completed_ms: at + 10, answer },
    ...more,
  }
}

const delivered = (
  userId: string,
  requestId: string,
  status = 'DELIVERED',
  reason: string | null = null,
) => ({
  ...{ userId, requestId, status, reason },
})

function rest(claims: AtRest['claims'], more: Partial<AtRest> = {}): AtRest {
  const recorded = new Set(claims.map(({ requestId }) => requestId))
  return { quota: 2, perUserLimit: 1, claims, restocked: [], recorded, ...more }
}

function finds(events: readonly HistoryEvent[], at: AtRest, expected: RegExp): void {
  const violations = auditHistory([opening, ...events], at)
  assert.equal(violations.length, 1, violations.join('\n'))
  assert.match(violations[0]!, expected)
}

const holds = (events: readonly HistoryEvent[], at: AtRest) =>
  assert.deepEqual(auditHistory([opening, ...events], at), [])

const a = accepted('r1')
const one = rest([delivered('u', 'r1')])

describe('the auditor of histories', () => {
  it('finds nothing in a good one: busy, unknown, then accepted, repeated, and another sold out', () => {
    const events = [
      claim('u', 2_000, refused('BUSY')),
      claim('u', 2_200, unknown),
      claim('u', 2_400, accepted('r1', { replayed: true })),
      claim('u', 2_600, accepted('r1', { replayed: true })),
      claim('v', 2_800, refused('SOLD_OUT')),
    ]
    holds(events, one)
    assert.deepEqual(fromLines(toLines(events)), events)
  })

  it('believes no history without a campaign or without an acceptance', () => {
    assert.match(auditHistory([claim('u', 2_000, a)], one)[0]!, /names no campaign/)
    finds([claim('u', 2_000, refused('SOLD_OUT'))], rest([]), /nobody was accepted/)
  })

  it('finds a key that was accepted as two requests', () => {
    const two = rest([delivered('u', 'r1'), delivered('u', 'r2')], { perUserLimit: 2 })
    finds(
      [claim('u', 2_000, a), claim('u', 3_000, accepted('r2'))],
      two,
      /4: a key of u was accepted as r1 and r2/,
    )
  })

  it('finds an acceptance that became a refusal, unless its receipt was honoured', () => {
    for (const code of ['SOLD_OUT', 'PAUSED', 'ENDED', 'TOKEN_USED', 'LIMIT_REACHED'])
      finds([claim('u', 2_000, a), claim('u', 3_000, refused(code))], one, new RegExp(`4: u heard ${code}`))
    holds([claim('u', 2_000, a), claim('u', 3_000, refused('BUSY'))], one)
    const honoured = { outcome: 'honoured', request_id: 'r1', status: 'PROCESSING' } as const
    const receipt = claim('u', 2_500, honoured, { operation: 'receipt' })
    holds([claim('u', 2_000, a), receipt, claim('u', 3_000, refused('LIMIT_REACHED'))], one)
  })

  it('lets a refusal that was decided before the acceptance arrive after it', () => {
    holds([claim('u', 2_000, a), claim('u', 2_005, refused('SOLD_OUT'), { completed_ms: 2_500 })], one)
  })

  it('finds more acceptances than the quota, and than a user may have', () => {
    const users = ['u', 'v', 'w']
    const events = users.map((user, i) => claim(user, 2_000 + i, accepted(`r${i}`)))
    const all = users.map((user, i) => delivered(user, `r${i}`))
    finds(events, rest(all), /1: 3 acceptances stand, the quota is 2/)
    holds(events, rest([...all.slice(0, 2), delivered('w', 'r2', 'REJECTED', 'REJECTED_QUOTA')]))
    const mine = [claim('u', 2_000, a), claim('u', 3_000, accepted('r2'), { key: 'another key' })]
    finds(mine, rest([delivered('u', 'r1'), delivered('u', 'r2')]), /2: 2 acceptances of u stand/)
  })

  it('finds an acceptance before the start and after the end, by true time', () => {
    finds([claim('u', 900, a)], one, /before the start/)
    holds([claim('u', 995, a)], one)
    finds([claim('u', 100_001, a)], one, /after the end/)
    holds([claim('u', 100_001, accepted('r1', { replayed: true }))], one)
  })

  it('finds an acceptance between a pause and the resumption', () => {
    const pause: HistoryEvent = { type: 'command', verb: 'pause', invoked_ms: 2_000, completed_ms: 2_100 }
    const resume: HistoryEvent = { type: 'command', verb: 'resume', invoked_ms: 5_000, completed_ms: 5_100 }
    finds([pause, resume, claim('u', 3_000, accepted('r1', { accepted_at_ms: 3_005 }))], one, /pause: u/)
    finds([pause, claim('u', 9_000, accepted('r1', { accepted_at_ms: 9_005 }))], one, /pause: u/)
    holds([pause, resume, claim('u', 2_050, accepted('r1', { accepted_at_ms: 2_055 }))], one)
    holds([pause, resume, claim('u', 5_001, accepted('r1', { accepted_at_ms: 5_005 }))], one)
    const late = claim('u', 3_000, accepted('r1', { accepted_at_ms: 1_905 }))
    holds([claim('u', 1_900, unknown), pause, resume, late], one)
  })

  it('finds an unknown answer that its key does not resolve', () => {
    const other = [claim('v', 2_000, accepted('r9'))]
    const both = [delivered('u', 'r1'), delivered('v', 'r9')]
    for (const code of ['LIMIT_REACHED', 'TOKEN_USED', 'IDEMPOTENCY_MISMATCH'])
      finds(
        [...other, claim('u', 2_000, unknown), claim('u', 3_000, refused(code))],
        rest(both),
        new RegExp(`4: u got no answer, and by the same key ${code}`),
      )
    const doubled = rest([delivered('u', 'r0'), delivered('u', 'r1', 'REJECTED', 'REJECTED_DUPLICATE')])
    finds([claim('u', 2_000, unknown), claim('u', 3_000, a)], doubled, /4: u was told of r1 .* by r0/)
  })

  it('finds an acceptance after SOLD_OUT, unless stock came back in between', () => {
    const events = [
      claim('u', 2_000, a),
      claim('v', 3_000, refused('SOLD_OUT')),
      claim('w', 9_000, accepted('r2')),
    ]
    const both = [delivered('u', 'r1'), delivered('w', 'r2')]
    finds(events, rest(both), /order: w was accepted after SOLD_OUT/)
    holds(events, rest(both, { restocked: [{ fromMs: 6_000, toMs: 6_000 }] }))
    finds(events, rest(both, { restocked: [{ fromMs: 500, toMs: 1_500 }] }), /order: w/)
    holds([...events, { type: 'fault', at_ms: 5_000, what: 'FLUSHALL', forgets: true }], rest(both))
    finds([...events, { type: 'fault', at_ms: 5_000, what: 'edge killed' }], rest(both), /order: w/)
    const concurrent = claim('w', 3_005, accepted('r2'))
    holds([...events.slice(0, 2), concurrent], rest(both))
  })

  it('finds an acceptance that was told and has no end, or another user’s', () => {
    finds([claim('u', 2_000, a)], rest([]), /5: 1 acceptances that were told have no end, such as r1/)
    finds([claim('u', 2_000, a)], rest([delivered('u', 'r1', 'PROCESSING')]), /5: 1/)
    finds([claim('u', 2_000, a)], rest([delivered('u', 'r1', 'REJECTED')]), /5: 1/)
    finds([claim('u', 2_000, a)], rest([delivered('v', 'r1')]), /5: 1/)
    holds([claim('u', 2_000, a)], rest([delivered('u', 'r1', 'REJECTED', 'REJECTED_QUOTA')]))
  })

  it('finds a coupon whose request Redis does not know any more', () => {
    finds(
      [claim('u', 2_000, a)],
      rest([delivered('u', 'r1')], { recorded: new Set() }),
      /4: Redis has no record/,
    )
  })
})
