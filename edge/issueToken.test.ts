import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../schema/limits.ts'
import { bounds } from './bounds.ts'
import { closedFor, windowOf } from './issueToken.ts'
import { campaign, hourMs } from './testing.ts'

test('a claim token’s window begins at the start and outlasts it by the token’s lifetime, however early the token was fetched', () => {
  const { starts_at_ms: start } = campaign()
  const ahead = windowOf(campaign(), start - limits.tokenLeadMs)
  assert.deepEqual(ahead, { notBeforeMs: start, expiresAtMs: start + limits.tokenLifetimeMs })
  const later = windowOf(campaign(), start + hourMs)
  assert.deepEqual(later, { notBeforeMs: start, expiresAtMs: start + hourMs + limits.tokenLifetimeMs })
})

test('a claim token’s window ends soon after the campaign, not at its last instant: a lost answer can still be repeated', () => {
  const { ends_at_ms: end } = campaign()
  assert.equal(windowOf(campaign(), end - 1_000).expiresAtMs, end + bounds.tokenReplayMs)
})

test('a claim token can’t be had before the lead time, after the end or from a cancelled campaign; a paused one gives it', () => {
  const { starts_at_ms: start, ends_at_ms: end } = campaign()
  const opens = start - limits.tokenLeadMs
  assert.equal(closedFor(campaign(), opens - 1)?.code, 'NOT_STARTED')
  assert.equal(closedFor(campaign(), opens), undefined)
  assert.equal(closedFor(campaign(), end - 1), undefined)
  assert.equal(closedFor(campaign(), end)?.code, 'ENDED')
  assert.equal(closedFor(campaign({ state: 'ENDED' }), start)?.code, 'ENDED')
  assert.equal(closedFor(campaign({ state: 'VOIDED' }), opens - 1)?.code, 'VOIDED')
  assert.equal(closedFor(campaign({ state: 'PAUSED' }), start), undefined)
  assert.equal(closedFor(campaign({ state: 'APPROVED' }), start), undefined)
})
