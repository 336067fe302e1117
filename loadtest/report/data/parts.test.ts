import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { emptyRecord, sampleRecord } from '../sample.fixture.ts'
import { flatten, gather, PartError } from './parts.ts'

describe('a run’s parts', () => {
  const sample = sampleRecord()
  let dir: string
  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'report-parts-'))
  })
  after(() => rmSync(dir, { recursive: true }))

  const save = (name: string, value: unknown) => {
    const file = join(dir, name)
    writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value))
    return file
  }

  test('come together as if one command had made them', () => {
    const files = {
      drills: save('drills.json', sample.drills),
      sim: [
        save('seeds.json', { ...sample.simulation, mutations: [] }),
        save('bugs.json', sample.simulation),
      ],
      bench: [save('bench.json', sample.bench)],
      scale: save('scale.json', sample.scale),
      peers: save('peers.json', sample.peers),
      capacity: save('capacity.json', sample.capacity),
    }
    const { drills: _1, simulation: _2, bench: _3, scale: _4, peers: _5, capacity: _6, ...bare } = sample
    assert.deepEqual(gather(save('run.json', bare), files), sample)
  })

  test('are also found in whole records, under their names', () => {
    const whole = save('whole.json', sample)
    const files = { drills: whole, sim: [whole], scale: whole, peers: whole, capacity: whole }
    const { drills, simulation, scale, peers, capacity } = gather(save('run.json', emptyRecord()), files)
    assert.deepEqual([drills, simulation], [sample.drills, sample.simulation])
    assert.deepEqual([scale, peers, capacity], [sample.scale, sample.peers, sample.capacity])
  })

  test('that no file names stay what they were', () => {
    assert.deepEqual(gather(save('run.json', sample), {}), sample)
  })

  test('of drills need no words about them', () => {
    const drills = [{ name: 'core-killed', passed: false, violations: ['oversold'] }]
    const record = gather(save('run.json', emptyRecord()), { drills: save('drills.json', drills) })
    assert.deepEqual(record.drills, [{ ...drills[0]!, about: '', figures: {} }])
    const abouts = new Map([['core-killed', 'again and again']])
    const told = gather(save('run.json', emptyRecord()), { drills: save('drills.json', drills) }, abouts)
    assert.equal(told.drills![0]!.about, 'again and again')
  })

  test('of the simulation are two files: seeds that ran with a planted bug count for that bug alone', () => {
    const { mutations, ...seeds } = sample.simulation!
    const [held, bugs] = [
      save('seeds.json', seeds),
      save('bugs.json', { ...seeds, seeds: 77, steps: 7, mutations }),
    ]
    const run = save('run.json', emptyRecord())
    for (const sim of [
      [held, bugs],
      [bugs, held],
    ])
      assert.deepEqual(gather(run, { sim }).simulation, sample.simulation)
    assert.deepEqual(gather(run, { sim: [bugs] }).simulation, {
      ...sample.simulation!,
      seeds: 0,
      steps: 0,
      seconds: 0,
    })
    assert.deepEqual(gather(save('whole.json', sample), { sim: [bugs] }).simulation, sample.simulation)
  })

  test('of one bench suite are known by their figures', () => {
    const { lua, drain } = sample.bench
    const files = [save('lua.json', lua), save('drain.json', { ...drain, budgets: { 'ratio ≥ 0.7': true } })]
    const { bench } = gather(save('run.json', emptyRecord()), { bench: files })
    assert.deepEqual(bench, { lua, drain: { ...drain, 'budgets.ratio ≥ 0.7': true } })
  })

  test('that are something else are refused, with what is wrong', () => {
    const run = save('run.json', emptyRecord())
    const drills = save('drills.json', sample.drills)
    const refused: [() => unknown, RegExp][] = [
      [() => gather(join(dir, 'none.json'), {}), /none\.json/],
      [() => gather(drills, {}), /not a load test's record of version 1/],
      [() => gather(run, { drills: save('broken.json', '{') }), /can't be read as JSON/],
      [() => gather(run, { drills: save('other.json', [{ name: 'x' }]) }), /no list of drills/],
      [() => gather(run, { sim: [drills] }), /fields of simulation/],
      [() => gather(run, { bench: [save('bench.json', { figure: 1 })] }), /no known suite/],
      [() => gather(run, { capacity: drills }), /fields of capacity/],
    ]
    for (const [attempt, words] of refused)
      assert.throws(attempt, (error) => error instanceof PartError && words.test(error.message))
  })
})

test('nested figures are told by their path, lists as text', () => {
  assert.deepEqual(flatten({ a: 1, b: { c: { d: true } }, e: ['x', 'y'], f: null }), {
    a: 1,
    'b.c.d': true,
    e: 'x; y',
  })
})
