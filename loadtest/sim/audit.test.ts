import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Gates, judgeStores, type Ledger } from './audit.ts'

const claim = (n: number, more: Partial<Ledger['claims'][number]> = {}): Ledger['claims'][number] => ({
  user_id: `user-${n}`,
  request_id: `request-${n}`,
  status: 'DELIVERED',
  reason: null,
  coupon_id: `coupon-${n}`,
  token_id: `token-${n}`,
  key_fingerprint: `key-${n}`,
  entry_seq: 0,
  settled_ms: 1,
  ...more,
})

/** Two coupons of four, one rejected and returned, two left. */
function whole(): [Ledger, Gates] {
  const rejected = claim(3, { status: 'REJECTED', reason: 'REJECTED_CANCELLED', coupon_id: null })
  const claims = [claim(1), claim(2), rejected]
  const coupons = [1, 2].map((n) => ({
    user_id: `user-${n}`,
    request_id: `request-${n}`,
    coupon_id: `coupon-${n}`,
  }))
  const delivered = (of: string) => [1, 2].map((n) => ({ request_id: `request-${n}`, kind: of, type: of }))
  const ledger: Ledger = {
    state: 'ACTIVE',
    quota: 4,
    perUserLimit: 1,
    bucketCount: 1,
    stockQuota: 4,
    counter: 2,
    unallocated: 0,
    withdrawn: 0,
    inTransit: 0,
    coupons,
    claims,
    compensations: [{ user_id: 'user-3', request_id: 'request-3', state: 'CLOSED' }],
    ledgerRows: [...delivered('coupon.issued'), { request_id: 'request-3', kind: 'claim.rejected' }],
    events: [...delivered('claim.delivered'), { request_id: 'request-3', type: 'claim.rejected' }],
    deadLetters: 0,
    unpublished: 0,
    writtenOff: 0,
  }
  const records = [1, 2, 3].map((n) => ({
    userId: `user-${n}`,
    requestId: `request-${n}`,
    key: `key-${n}`,
    token: `token-${n}`,
    state: n === 3 ? 'R' : 'D',
  }))
  const gates = { gates: 1, remaining: 2, accepted: 3, returned: 1, entries: 0, records, leasedUntilMs: 0 }
  return [ledger, gates]
}

test('stores that hold what they should break nothing', () => {
  assert.deepEqual(judgeStores(...whole(), 0), [])
})

test('a rejection whose acceptance Redis lost is of no gate, and a record that was lost alone is missed', () => {
  const [ledger, gates] = whole()
  gates.records.pop()
  assert.match(judgeStores(ledger, gates, 0).join('; '), /^9:/)
  Object.assign(gates, { accepted: 2, returned: 0 })
  assert.deepEqual(judgeStores(ledger, gates, 0), [])
})

const faults: [string, RegExp, (ledger: Ledger, gates: Gates) => void][] = [
  ['one coupon too many', /^1:/, (ledger) => Object.assign(ledger, { quota: 1, stockQuota: 1 })],
  ['a counter that is wrong', /^1:/, (ledger) => Object.assign(ledger, { counter: 1 })],
  ['two coupons of a user', /^2:/, ({ coupons }) => Object.assign(coupons[1]!, { user_id: 'user-1' })],
  [
    'two coupons of a request',
    /^4:/,
    ({ coupons }) => Object.assign(coupons[1]!, { request_id: 'request-1' }),
  ],
  [
    'a token that was accepted twice',
    /^4:/,
    ({ claims }) => Object.assign(claims[1]!, { user_id: 'user-1', token_id: 'token-1' }),
  ],
  [
    'a key that stands twice in Redis',
    /^4:/,
    (_, { records }) => Object.assign(records[1]!, { userId: 'user-1', key: 'key-1' }),
  ],
  ['a claim without an end', /^5:/, ({ claims }) => Object.assign(claims[0]!, { status: 'PROCESSING' })],
  ['a rejection without a reason', /^5:/, ({ claims }) => Object.assign(claims[2]!, { reason: null })],
  ['a result that nobody was to be told', /^5:/, ({ events }) => events.pop()],
  ['a claim that was set aside', /^5:/, (ledger) => Object.assign(ledger, { deadLetters: 1 })],
  [
    'stock returned for a coupon',
    /^6:/,
    ({ compensations }) => Object.assign(compensations[0]!, { request_id: 'request-1' }),
  ],
  ['stock returned twice', /^6:/, (_, gates) => Object.assign(gates, { returned: 2, remaining: 3 })],
  [
    'stock never returned',
    /^6:/,
    ({ compensations }) => Object.assign(compensations[0]!, { state: 'PENDING' }),
  ],
  ['a coupon without a row of the ledger', /^8:/, ({ ledgerRows }) => ledgerRows.shift()],
  ['stock from nowhere', /^9:/, (_, gates) => Object.assign(gates, { remaining: 3 })],
  ['a gate that is gone', /^9:/, (_, gates) => Object.assign(gates, { gates: 0 })],
]
for (const [what, expected, plant] of faults)
  test(`the auditor sees ${what}`, () => {
    const [ledger, gates] = whole()
    plant(ledger, gates)
    const broken = judgeStores(ledger, gates, 0)
    assert.ok(
      broken.some((one) => expected.test(one)),
      JSON.stringify(broken),
    )
  })
