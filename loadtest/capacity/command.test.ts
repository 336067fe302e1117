import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { temporaryFolder } from '../../stack/testing.ts'
import type { CapacityRecord } from '../record/record.ts'
import { main } from './command.ts'
import { roundCosts } from './costs.fixture.ts'

const folder = temporaryFolder('capacity')
const costs = join(folder, 'costs.json')
before(() => writeFileSync(costs, JSON.stringify(roundCosts)))

const small = ['--target', '500', '--quota', '2000', '--locations', '1', '--costs', costs]

test('from a file of costs the answer comes without any run, as a record', async () => {
  const json = join(folder, 'capacity.json')
  assert.equal(await main([...small, '--json', json]), 0)
  const record = JSON.parse(readFileSync(json, 'utf8')) as CapacityRecord
  assert.equal(record.question['peakPerSecond'], 500)
  assert.ok(record.needs.some(({ what, amount }) => what === 'isolates' && amount === '1'))
  assert.match(record.bottleneck, /head-room \d+ %/)
  assert.deepEqual(record.validations, [])
})

test('what is fixed too low ends with 1, arguments that make no sense with 2', async () => {
  assert.equal(await main([...small, '--target', '50000', '--isolates', '1']), 1)
  assert.equal(await main([...small, '--isolates', 'some']), 2)
  assert.equal(await main([...small, '--bots', '1.5']), 2)
  assert.equal(await main(['--no-such-option']), 2)
})
