import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { runCommand } from '../../stack/run-command.ts'
import type { RunRecord } from '../record/record.ts'
import { renderReport } from './render.ts'
import { emptyRecord, sampleRecord } from './sample.fixture.ts'

const sample = sampleRecord()

/** The texts of all headings, tags taken out. */
const headings = (page: string) => [...page.matchAll(/<h2[^>]*>(.*?)<\/h2>/gs)].map(([, text]) => text!)

const common = [
  'Scenarios',
  'Compared with earlier',
  'Drills',
  'Simulation',
  'Other designs',
  'Scale',
  'Capacity',
  'Budgets',
  'Machine, versions, settings',
]

describe('the page', () => {
  test('shows every part of a full record, each scenario in a section of its own', () => {
    const page = renderReport(sample, sampleRecord(5))
    const [first, second, ...rest] = common
    const titles = sample.scenarios.map(({ title }) => title)
    assert.deepEqual(headings(page), [first, second, ...titles, ...rest])
    assert.doesNotMatch(page, /class="absent"|undefined|NaN|\[object/)
    const plots = [...page.matchAll(/<svg class="plot"/g)].length
    assert.equal(plots, sample.scenarios.length * 7 + 3)
  })

  test('says of every part that was not run that it was not, and how to run it', () => {
    const page = renderReport(emptyRecord())
    assert.deepEqual(headings(page), common)
    for (const what of [
      'No scenario',
      'No earlier record',
      'No drill',
      'No simulation',
      'No peer',
      'No run of scale',
    ])
      assert.match(page, new RegExp(`class="absent">${what}`))
    for (const what of [
      'No capacity plan',
      'No bench',
      'Indexes: none',
      'Versions: nothing',
      'Settings: nothing',
    ])
      assert.match(page, new RegExp(`class="absent">${what}`))
    assert.doesNotMatch(page, /undefined|NaN|\[object/)
  })

  test('shows a scenario that left nothing but its name', () => {
    const bare = {
      ...sample.scenarios[0]!,
      settings: {},
      distribution: [],
      sizes: {},
      timeline: { every_ms: 250, series: { offered: [], backlog: [null, null] }, events: [] },
      latencies: [],
      offered: 0,
      answered: 0,
      codes: {},
      funnel: [],
      cpu_seconds: {},
      criteria: [],
    }
    const page = renderReport({ ...emptyRecord(), scenarios: [bare] }, sample)
    assert.match(page, /no criteria of its own/)
    assert.doesNotMatch(page, /undefined|NaN|\[object/)
  })

  test('runs nothing and fetches nothing, whatever the names in the record are', () => {
    const attack = '</title></style><script>alert(1)</script><img src="https://x.test/a" onerror=alert(1)>'
    const renamed = JSON.parse(
      JSON.stringify(sample, (_, value) => (typeof value === 'string' ? `${attack}${value}` : value)),
      (name, value) =>
        name === 'series' ? { [`refused.${attack}`]: [1, 2], [attack]: [3, 4], ...value } : value,
    ) as RunRecord
    const page = renderReport(renamed, renamed)
    assert.equal(page.includes(attack), false)
    assert.ok(page.includes('&lt;script&gt;'))
    const bare = page.replace(/"[^"]*"/g, '""')
    assert.doesNotMatch(bare, /<script|<img|<iframe|<object|<use|@import|url\(|<[^>]+ on[a-z]+=/i)
    assert.equal([...page.matchAll(/<style>/g)].length, 1)
    assert.doesNotMatch(page, /<[^>]+ style=/)
    for (const [, address] of page.matchAll(/<[^>]+ (?:href|src)="([^"]*)"/g))
      assert.match(address!, /^#[a-z0-9-]+$|^data:,$/)
  })

  test('is the same for the same record, and small', () => {
    const page = renderReport(sample, sampleRecord(5))
    assert.equal(page, renderReport(sample, sampleRecord(5)))
    assert.ok(Buffer.byteLength(page) < 1_000_000, `${Buffer.byteLength(page)} bytes`)
    const long = renderReport(sampleRecord(1, 3000))
    assert.ok(Buffer.byteLength(long) < 1_000_000, `${Buffer.byteLength(long)} bytes`)
  })

  test('tells each plot in words: first, peak and last of each line, and what happened', () => {
    const page = renderReport(sample)
    const told = [...page.matchAll(/<svg class="plot"[^>]*aria-label="([^"]*)"/g)].map(([, text]) => text!)
    assert.ok(told.every((text) => text.length > 20))
    const failover = told.filter((text) => text.startsWith('Stock, backlog, lease'))[5]!
    assert.match(failover, /backlog: first [\d,.]+, peak [\d,.]+ at [\d,.]+ s, last [\d,.]+\./)
    assert.match(failover, /Events: 1 at 10 s: Redis killed; 2 at 12\.5 s: Redis started again\.$/)
  })
})

describe('npm run loadtest -- report', () => {
  let dir: string
  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'report-'))
    writeFileSync(join(dir, 'run.json'), JSON.stringify(sampleRecord(1, 900)))
    writeFileSync(join(dir, 'before.json'), JSON.stringify(sampleRecord(2)))
    writeFileSync(
      join(dir, 'drills.json'),
      JSON.stringify([{ name: 'core-killed', passed: false, violations: ['x'] }]),
    )
  })
  after(() => rmSync(dir, { recursive: true }))

  const program = join(import.meta.dirname, '..', 'loadtest.ts')
  const report = (...args: string[]) =>
    runCommand(process.execPath, [program, 'report', ...args], { cwd: dir, timeoutMs: 60_000 })

  test('writes the page and the thinned record, and ends with the verdict', async () => {
    const { code, output } = await report(
      ...['--in', 'run.json', '--before', 'before.json', '--html', 'new/out.html', '--json', 'new/out.json'],
    )
    assert.match(output.trim().split('\n').at(-1)!, /^report: Passed: 10 of 10 scenarios/)
    assert.equal(code, 0)
    assert.match(readFileSync(join(dir, 'new/out.html'), 'utf8'), /^<!doctype html>/)
    const record = JSON.parse(readFileSync(join(dir, 'new/out.json'), 'utf8')) as RunRecord
    assert.equal(record.scenarios[0]!.timeline.series['offered']!.length, 300)
    assert.equal(record.scenarios[0]!.timeline.every_ms, 750)
  })

  test('ends with 1 when something failed, its files written all the same', async () => {
    const { code, output } = await report(
      '--in',
      'run.json',
      '--drills',
      'drills.json',
      '--html',
      'failed.html',
    )
    assert.match(output, /report: Failed: 1 of 1 drills\. Passed: 10 of 10 scenarios/)
    assert.equal(code, 1)
    assert.match(readFileSync(join(dir, 'failed.html'), 'utf8'), /class="verdict is-bad"/)
  })

  test('ends with 2 for arguments and files that are none', async () => {
    const none: [string[], RegExp][] = [
      [[], /npm run loadtest -- report/],
      [['--in', 'run.json'], /--html FILE/],
      [['--in', 'run.json', '--htm', 'x.html'], /Unknown option/],
      [['--in', 'gone.json', '--html', 'x.html'], /gone\.json/],
      [['--in', 'drills.json', '--html', 'x.html'], /not a load test's record/],
    ]
    for (const [args, words] of none) {
      const { code, output } = await report(...args)
      assert.equal(code, 2, args.join(' '))
      assert.match(output, words)
    }
    const { code, output } = await report('--help')
    assert.deepEqual([code, /--capacity FILE/.test(output)], [0, true])
  })
})
