import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { arrive } from '../traffic/openLoop.ts'
import { scenarios } from './all.ts'
import { scenarioNames } from './names.ts'
import { comesAgainAfter, leavesOpen, tellsNothing, waitBefore } from './patience.ts'
import type { Load } from './scenario.ts'
import { percentileOf, Tally } from './tally.ts'
import { splitCommands } from './usage.ts'
import { atLeast, atMost, conclude, type Measured, none } from './verdict.ts'

const good: Measured = {
  name: 'opening-flood',
  title: '',
  about: '',
  settings: {},
  seconds: 1,
  distribution: [],
  sizes: {},
  timeline: { every_ms: 250, series: {}, events: [] },
  latencies: [],
  offered: 10,
  answered: 10,
  codes: {},
  funnel: [],
  commands: { edge: 1, core: 1 },
  cpu_seconds: {},
  figures: { unknown_left: 0, undelivered: 0 },
  violations: [],
}
const fine = [atMost('something', 1, 2)]

describe('a verdict', () => {
  it('passes when every criterion has', () => {
    assert.equal(conclude(good, fine).passed, true)
  })

  for (const [what, measured, own] of [
    ['a missed criterion of its own', good, [...fine, atMost('accept p99', 91, 90, 'ms')]],
    ['no criterion of its own', good, []],
    ['a broken invariant', { ...good, violations: ['1: 3 coupons over the quota'] }, fine],
    ['nobody who came', { ...good, offered: 0, answered: 0 }, fine],
    ['a request without an answer', { ...good, answered: 9 }, fine],
    ['an outcome that stays unknown', { ...good, figures: { unknown_left: 1, undelivered: 0 } }, fine],
    ['an acceptance that is not delivered', { ...good, figures: { unknown_left: 0, undelivered: 1 } }, fine],
    ['figures that were never measured', { ...good, figures: {} }, fine],
  ] as const)
    it(`fails with ${what}`, () => {
      assert.equal(conclude(measured, own).passed, false)
    })

  it('does not pass what was not measured', () => {
    for (const criterion of [atMost('x', undefined, 1), atLeast('x', undefined, 1), none('x', undefined)]) {
      assert.equal(criterion.passed, false)
      assert.equal(criterion.found, 'not measured')
    }
  })

  it('tells the bound and what was found', () => {
    assert.deepEqual(atMost('accept p99', 91.26, 90, 'ms'), {
      name: 'accept p99 ≤ 90 ms',
      found: '91.26 ms',
      passed: false,
    })
    assert.equal(atLeast('x', 90, 90).passed, true)
    assert.equal(none('x', 1).passed, false)
  })
})

describe('the matrix', () => {
  it('has every scenario that is named, in that order', () => {
    assert.deepEqual(
      scenarios.map(({ name }) => name),
      scenarioNames,
    )
  })

  it('fails each scenario of which nothing was found', () => {
    const load: Load = { seconds: 60, perSecond: 100, capacity: 100, seed: 1 }
    for (const scenario of scenarios) {
      const criteria = scenario.judge(good, load)
      assert.ok(
        criteria.some(({ passed }) => !passed),
        scenario.name,
      )
    }
  })
})

describe('an open loop', () => {
  it('starts each when it is due, also while all that began before is stuck', async () => {
    const due = [0, 5, 5, 30, 60]
    let stuck = 0
    const release: (() => void)[] = []
    const began = performance.now()
    const starts: { late: number; dueAt: number }[] = []
    const all = arrive(
      due.length,
      began,
      (i) => due[i]!,
      (_, dueAt) => {
        starts.push({ late: performance.now() - dueAt, dueAt })
        stuck++
        if (stuck === due.length) for (const go of release) go()
        return stuck === due.length ? Promise.resolve() : new Promise((resolve) => release.push(resolve))
      },
    )
    await all
    assert.deepEqual(
      starts.map(({ dueAt }) => Math.round(dueAt - began)),
      due,
    )
    // Never before its time; how late is the machine's business, and counts into the latency.
    for (const { late } of starts) assert.ok(late >= 0)
  })
})

describe('a client', () => {
  it('comes again later each time, never before it was told to, and not all at once', () => {
    const waits = [0, 1, 2, 3].map((attempt) => waitBefore(attempt, { retryAfterMs: 1_000 }, () => 0))
    assert.deepEqual(
      [...waits].sort((a, b) => a - b),
      waits,
    )
    assert.ok(waits[0]! >= 1_000 && new Set(waits).size === 4)
    assert.notEqual(
      waitBefore(0, {}, () => 0),
      waitBefore(0, {}, () => 0.9),
    )
    assert.ok(waitBefore(0, { startsInMs: 700 }, () => 0) >= 700)
  })

  it('never takes what leaves its claim open for an answer', () => {
    for (const code of ['OUTCOME_UNKNOWN', 'no answer']) {
      assert.ok(leavesOpen(code) && tellsNothing(code) && comesAgainAfter(code))
    }
    for (const code of ['SOLD_OUT', 'LIMIT_REACHED', 'TOKEN_USED', 'ENDED'])
      assert.ok(!comesAgainAfter(code) && !tellsNothing(code))
  })
})

describe('a tally', () => {
  it('counts each answer once, in the run and in the moment', () => {
    const tally = new Tally()
    for (const code of ['ACCEPTED', 'ACCEPTED', 'REPLAYED', 'SOLD_OUT', 'no answer']) {
      tally.offer()
      tally.answer(code, code === 'ACCEPTED' ? 'accept' : 'refuse', 5)
    }
    assert.deepEqual([tally.offered, tally.answered], [5, 4])
    const window = tally.takeWindow()
    assert.deepEqual(
      [window.offered, window.accepted, window.refused],
      [5, 2, { SOLD_OUT: 1, 'no answer': 1 }],
    )
    assert.equal(tally.takeWindow().offered, 0)
    assert.equal(tally.records().find(({ name }) => name === 'accept')!.count, 2)
  })

  it('takes a percentile by the nearest rank', () => {
    assert.equal(percentileOf([], 99), null)
    assert.equal(percentileOf([3, 1, 2], 50), 2)
    assert.equal(
      percentileOf(
        Array.from({ length: 100 }, (_, i) => i + 1),
        99,
      ),
      99,
    )
  })
})

describe('billed commands', () => {
  const none_ = { billed: 0, byCommand: {}, sent: 0, calls: 0, claims: 0, transactions: 0 }

  it('are the edge’s by its calls’ shape, and all others the core’s', () => {
    // Ten calls, four of which accept: 10 EVALSHA, 30 inside, 12 more inside of those that accept.
    const after = { ...none_, billed: 100, byCommand: { xadd: 4 }, sent: 10, calls: 10 }
    assert.deepEqual(splitCommands(none_, after, 8), { edge: 52, core: 40 })
  })

  it('never exceed what Redis has executed, also when it was away', () => {
    const after = { ...none_, billed: 20, byCommand: { xadd: 4 }, sent: 10, calls: 10 }
    assert.deepEqual(splitCommands(none_, after, 8), { edge: 12, core: 0 })
  })
})
