import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { makeRig, type Rig } from '../rig.test.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

const window = () => ({
  starts_at: new Date(Date.now() - 60_000).toISOString(),
  ends_at: new Date(Date.now() + 3_600_000).toISOString(),
})
const campaign = (extra: object = {}) => ({
  name: '双十一 first come',
  mode: 'first_come',
  quota: 100,
  per_user_limit: 1,
  ...window(),
  time_zone: 'Asia/Shanghai',
  rules: {
    benefit: {
      kind: 'amount_off',
      amount: { currency: 'CNY', minor: '1000' },
      threshold: { currency: 'CNY', minor: '10000' },
    },
    validity: { kind: 'days', days: 7 },
  },
  ...extra,
})

for (const [what, extra, at] of [
  ['an end before the start', { ends_at: '2020-01-01T00:00:00Z' }, 'ends_at'],
  ['no quota', { quota: 0 }, 'quota'],
  ['a fractional quota', { quota: 1.5 }, 'quota'],
  ['a quota beyond all bounds', { quota: 1e12 }, 'quota'],
  ['a mode that is not offered', { mode: 'lottery' }, 'mode'],
  ['an unknown time zone', { time_zone: 'Mars/Olympus' }, 'time_zone'],
  ['a name of nothing', { name: '  ' }, 'name'],
  ['a name with a zero character', { name: 'a\0b' }, 'name'],
  ['too few buckets for the quota', { quota: 250_000, bucket_count: 2 }, 'bucket_count'],
  ['buckets without stock', { quota: 2, bucket_count: 3 }, 'bucket_count'],
  ['an unknown member', { user_id: 'x' }, ''],
  ['a limit of none', { per_user_limit: 0 }, 'per_user_limit'],
  [
    'mixed currencies',
    {
      rules: {
        benefit: {
          kind: 'amount_off',
          amount: { currency: 'CNY', minor: '1' },
          threshold: { currency: 'USD', minor: '1' },
        },
        validity: { kind: 'days', days: 1 },
      },
    },
    'rules.benefit.threshold',
  ],
  [
    'coupons that expire before the claiming ends',
    {
      rules: {
        benefit: { kind: 'free_shipping', threshold: { currency: 'CNY', minor: '0' } },
        validity: { kind: 'fixed', from: '2020-01-01T00:00:00Z', to: '2020-02-01T00:00:00Z' },
      },
    },
    'rules.validity.to',
  ],
] as const)
  test(`a campaign with ${what} is refused with the place of the fault`, async () => {
    const answer = await rig.post('operator:olga', '/admin/v1/campaigns', campaign(extra))
    assert.deepEqual([answer.status, answer.body['code']], [400, 'INVALID_REQUEST'], answer.text)
    const errors = answer.body['errors'] as { path: string; in: string }[]
    assert.ok(
      errors.some(({ path }) => path === at),
      answer.text,
    )
  })

test('a window that is over makes no campaign', async () => {
  const past = { starts_at: '2020-01-01T00:00:00Z', ends_at: '2020-01-02T00:00:00Z' }
  const answer = await rig.post('operator:olga', '/admin/v1/campaigns', campaign(past))
  assert.deepEqual([answer.status, answer.body['code']], [400, 'INVALID_REQUEST'])
  assert.match(answer.body['detail'] as string, /ends_at/)
})

test('the default number of buckets keeps every bucket within its bound', async () => {
  const made = await rig.post('operator:olga', '/admin/v1/campaigns', campaign({ quota: 250_001 }))
  assert.equal(made.body['bucket_count'], 3)
})
