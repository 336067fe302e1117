import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, mock, test } from 'node:test'
import { runCommand } from '../../stack/run-command.ts'
import type { RunRecord } from '../record/record.ts'
import { main } from './command.ts'
import { compactJson, thinRecord } from './data/thin.ts'
import { renderReport } from './render.ts'
import { emptyRecord, hostileRecord, sampleRecord } from './sample.fixture.ts'

/** The texts of all headings. */
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

/** What a slip in a template leaves behind. */
const slips = /undefined|NaN|\[object/

describe('the page', () => {
  const sample = sampleRecord(1, 3000)
  const page = renderReport(sample, sampleRecord(5))

  test('shows every part of a full record, each scenario in a section of its own', () => {
    const [first, second, ...rest] = common
    const titles = sample.scenarios.map(({ title }) => title)
    assert.deepEqual(headings(page), [first, second, ...titles, ...rest])
    assert.doesNotMatch(page, /class="absent"/)
    assert.doesNotMatch(page, slips)
    const plots = [...page.matchAll(/<svg class="plot"/g)].length
    assert.equal(plots, sample.scenarios.length * 8 + 3)
  })

  test('of ten scenarios with 3,000 samples each is under a megabyte, and its data under half of one', () => {
    assert.ok(Buffer.byteLength(page) < 1_000_000, `${Buffer.byteLength(page)} bytes`)
    const json = Buffer.byteLength(compactJson(thinRecord(sample)))
    assert.ok(json < 500_000, `${json} bytes`)
  })

  test('is the same for the same record', () => {
    const small = { ...sample, scenarios: sample.scenarios.slice(0, 1) }
    assert.equal(renderReport(small), renderReport(small))
  })

  test('tells each plot in words: first, peak and last of each line, and what happened', () => {
    const told = [...page.matchAll(/<svg class="plot"[^>]*aria-label="([^"]*)"/g)].map(([, text]) => text!)
    assert.ok(told.every((text) => text.length > 20))
    const failover = told.filter((text) => text.startsWith('Stock, backlog, lease'))[5]!
    assert.match(failover, /backlog: first [\d,.]+, peak [\d,.]+ at [\d,.]+ s, last [\d,.]+\./)
    assert.match(failover, /Events: 1 at 10 s: Redis killed; 2 at 12\.5 s: Redis started again\.$/)
  })

  test('says of every part that was not run that it was not', () => {
    const empty = renderReport(emptyRecord())
    assert.deepEqual(headings(empty), common)
    for (const what of ['scenario', 'drill', 'simulation', 'peer', 'run of scale', 'capacity plan', 'bench'])
      assert.match(
        empty,
        new RegExp(`class="absent">No ${what} is in this record\\. Make it with <code>npm run`),
      )
    for (const what of ['No earlier record', 'Indexes: none', 'Versions: nothing', 'Settings: nothing'])
      assert.match(empty, new RegExp(`class="absent">${what}`))
    assert.doesNotMatch(empty, slips)
  })

  test('shows a scenario that left nothing but its name, and names those that are missing', () => {
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
    const shown = renderReport({ ...emptyRecord(), scenarios: [bare] }, sample)
    assert.match(shown, /no criteria of its own/)
    assert.match(shown, /class="absent">Not run: one-stock-key, buckets,/)
    assert.doesNotMatch(shown, slips)
  })

  test('has no script, no style and no address but its own, whatever the names in the record are', () => {
    const { record, attack } = hostileRecord()
    const shown = renderReport(record, record)
    assert.equal(shown.includes(attack), false)
    assert.ok(shown.includes('&lt;script&gt;'))
    const bare = shown.replace(/"[^"]*"/g, '""')
    assert.doesNotMatch(bare, /<script|<img|<iframe|<object|<use|@import|url\(|<[^>]+ on[a-z]+=/i)
    assert.equal([...bare.matchAll(/<style>/g)].length, 1)
    assert.doesNotMatch(bare, /<[^>]+ style=/)
    for (const [, address] of shown.matchAll(/<[^>]+ (?:href|src)="([^"]*)"/g))
      assert.match(address!, /^#[a-z0-9-]+$|^data:,$/)
  })
})

describe('npm run loadtest -- report', () => {
  let dir: string
  const at = (name: string) => join(dir, name)

  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'report-'))
    const sample = sampleRecord(1, 900)
    writeFileSync(at('run.json'), JSON.stringify({ ...sample, scenarios: sample.scenarios.slice(0, 1) }))
    const drills = [{ name: 'core-killed', passed: false, violations: ['x'] }]
    writeFileSync(at('drills.json'), JSON.stringify(drills))
  })
  after(() => rmSync(dir, { recursive: true }))

  /** The command in this process, with what it printed. */
  async function report(...args: string[]) {
    const lines: unknown[] = []
    const printed = [mock.method(console, 'log', (line: unknown) => lines.push(line))]
    printed.push(mock.method(console, 'error', (line: unknown) => lines.push(line)))
    const code = await main(args).finally(() => {
      for (const { mock } of printed) mock.restore()
    })
    return { code, output: lines.join('\n') }
  }

  test('writes the page and the thinned record, ends with the verdict, and leaves nothing running', async () => {
    const program = join(import.meta.dirname, '..', 'loadtest.ts')
    const args = [
      '--in',
      'run.json',
      '--before',
      'run.json',
      '--html',
      'new/out.html',
      '--json',
      'new/out.json',
    ]
    const { code, output } = await runCommand(process.execPath, [program, 'report', ...args], {
      cwd: dir,
      timeoutMs: 60_000,
    })
    assert.match(output.trim().split('\n').at(-1)!, /^report: Passed: 1 of 1 scenarios/)
    assert.equal(code, 0)
    assert.match(readFileSync(at('new/out.html'), 'utf8'), /^<!doctype html>/)
    const record = JSON.parse(readFileSync(at('new/out.json'), 'utf8')) as RunRecord
    assert.equal(record.scenarios[0]!.timeline.series['offered']!.length, 300)
    assert.equal(record.scenarios[0]!.timeline.every_ms, 750)
  })

  test('ends with 1 when something failed, its files written all the same', async () => {
    const args = ['--in', at('run.json'), '--drills', at('drills.json'), '--html', at('failed.html')]
    const { code, output } = await report(...args)
    assert.match(output, /report: Failed: 1 of 1 drills\. Passed: 1 of 1 scenarios/)
    assert.equal(code, 1)
    assert.match(readFileSync(at('failed.html'), 'utf8'), /class="verdict is-bad"/)
  })

  test('ends with 2 for arguments and files that are none', async () => {
    const none: [string[], RegExp][] = [
      [[], /npm run loadtest -- report/],
      [['--in', at('run.json')], /--html FILE/],
      [['--in', at('run.json'), '--htm', 'x.html'], /Unknown option/],
      [['--in', at('gone.json'), '--html', 'x.html'], /gone\.json/],
      [['--in', at('drills.json'), '--html', 'x.html'], /not a load test's record/],
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
