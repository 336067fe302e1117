import assert from 'node:assert/strict'
import { test } from 'node:test'
import { campaign, hourMs } from './testing.ts'
import { etagOf, matches, viewOf } from './viewCampaign.ts'

test('a campaign’s availability changes at the instants of start and end exactly', () => {
  const { starts_at_ms: start, ends_at_ms: end } = campaign()
  const at = (nowMs: number, more = {}) => viewOf(campaign(more), nowMs).availability
  assert.deepEqual([at(start - 1), at(start), at(end - 1), at(end)], ['upcoming', 'open', 'open', 'ended'])
  assert.equal(at(start, { sold_out: true }), 'sold_out')
  assert.equal(at(start, { state: 'PAUSED' }), 'paused')
})

test('a view has an ETag that follows from everything but the time', () => {
  const view = viewOf(campaign(), 11 * hourMs)
  assert.equal(etagOf(viewOf(campaign(), 11 * hourMs + 1)), etagOf(view))
  const others = [{ name: 'Other' }, { sold_out: true }, { per_user_limit: 2 }, { state: 'PAUSED' as const }]
  for (const more of others) assert.notEqual(etagOf(viewOf(campaign(more), 11 * hourMs)), etagOf(view))
  assert.notEqual(etagOf(viewOf(campaign(), 9 * hourMs)), etagOf(view))
})

test('an ETag matches If-None-Match weakly, in a list, and by a star', () => {
  for (const header of ['W/"x"', '"x"', '"a", W/"x"', '*', ' W/"x" '])
    assert.ok(matches(header, 'W/"x"'), header)
  for (const header of [null, '', '"y"', 'x', 'W/"xx"']) assert.ok(!matches(header, 'W/"x"'), String(header))
})
