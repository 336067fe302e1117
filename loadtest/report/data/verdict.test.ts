import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RunRecord } from '../../record/record.ts'
import { emptyRecord, sampleRecord } from '../sample.fixture.ts'
import { verdictOf } from './verdict.ts'

const sample = sampleRecord()
const first = sample.scenarios[0]!
const failing = (change: Partial<RunRecord>) =>
  verdictOf({ ...sample, ...change }).parts.filter(({ state }) => state === 'failed')

test('a whole record in which all held has passed', () => {
  const { passed, line } = verdictOf(sample)
  assert.equal(passed, true)
  assert.match(
    line,
    /^Passed: 10 of 10 scenarios, 3 of 3 drills, simulation of 1,000 seeds \(0 violations, 3 of 3 planted/,
  )
})

test('a record of nothing has not passed, and names what is not in it', () => {
  const { passed, line } = verdictOf(emptyRecord())
  assert.equal(passed, false)
  assert.equal(line, 'Not in this record: scenarios, drills, simulation, peers, scale, capacity, budgets.')
})

test('a scenario of the matrix that is not there is named, and fails nothing', () => {
  const { passed, line, parts } = verdictOf({ ...sample, scenarios: sample.scenarios.slice(1) })
  assert.equal(passed, true)
  assert.match(line, /Not in this record: scenario opening-flood\.$/)
  assert.equal(parts[0]!.says, '9 of 9 passed; not run: opening-flood')
})

describe('each part can fail the whole', () => {
  const cases: Record<string, Partial<RunRecord>> = {
    'a scenario’s verdict': { scenarios: [{ ...first, passed: false }] },
    'a criterion that its scenario did not count': {
      scenarios: [{ ...first, criteria: [{ name: 'x', found: 'y', passed: false }] }],
    },
    'a violation that its scenario did not count': { scenarios: [{ ...first, violations: ['oversold'] }] },
    'a drill': { drills: [{ ...sample.drills[0]!, passed: false }] },
    'a violation in the simulation': {
      simulation: { ...sample.simulation!, violations: ['seed 4: oversold'] },
    },
    'a simulation of no seeds': { simulation: { ...sample.simulation!, seeds: 0 } },
    'a planted bug that was never caught': {
      simulation: {
        ...sample.simulation!,
        mutations: [{ name: 'late', about: '', allowed_seeds: 10, caught_at: null }],
      },
    },
    'a planted bug that was caught too late': {
      simulation: {
        ...sample.simulation!,
        mutations: [{ name: 'late', about: '', allowed_seeds: 10, caught_at: 11 }],
      },
    },
    'our own loss beside the peers': { peers: [{ ...sample.peers![0]!, lost: 1 }] },
    'a violation in a run of scale': { scale: [{ ...sample.scale![0]!, violations: ['oversold'] }] },
    'a prediction that is off': {
      capacity: {
        ...sample.capacity!,
        validations: [{ ...sample.capacity!.validations[0]!, error: -0.26 }],
      },
    },
    'a budget that is missed': { bench: { edge: { ratio_claim: 0.51 } } },
  }
  for (const [name, change] of Object.entries(cases)) {
    test(name, () => assert.equal(failing(change).length, 1))
  }

  test('what failed is named first', () => {
    const { line, passed } = verdictOf({ ...sample, bench: { edge: { ratio_claim: 0.51 } } })
    assert.equal(passed, false)
    assert.match(line, /^Failed: 1 of 3 budgets\. Passed: 10 of 10 scenarios/)
  })

  test('a drill that could not be run is no failure, and is named', () => {
    const skipped = { ...sample.drills[0]!, name: 'slow-disk', passed: false, skipped: 'no cgroups' }
    const { parts, passed } = verdictOf({ ...sample, drills: [...sample.drills, skipped] })
    assert.equal(passed, true)
    assert.equal(parts[1]!.says, '3 of 3 passed; not run: slow-disk')
    assert.equal(verdictOf({ ...emptyRecord(), drills: [skipped] }).passed, false)
  })

  test('a peer’s loss is not ours', () => assert.deepEqual(failing({ peers: sample.peers! }), []))
})
