import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { guardsShape } from '../../schema/guards.ts'
import { bucketOf } from '../../schema/hash.ts'
import { parseLimits } from './limits.ts'
import { outcomeOf } from './risk.ts'
import { compareVersions, outsideOf, placeOf } from './rollout.ts'

const nobody = { region: undefined, channel: undefined, clientVersion: undefined }

describe('a rollout', () => {
  it('that grows keeps everybody it had, and ends with everybody', () => {
    const share = fc.integer({ min: 0, max: 10_000 })
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), share, share, (userId, campaignId, a, b) => {
        const facts = { ...nobody, userId, campaignId }
        const isIn = (basis_points: number) => outsideOf({ basis_points }, facts) === undefined
        if (isIn(Math.min(a, b))) assert.ok(isIn(Math.max(a, b)))
        assert.ok(isIn(10_000) && !isIn(0))
      }),
    )
  })

  it('has the share of users that it says, other ones in each campaign, and of all buckets alike', () => {
    const users = Array.from({ length: 20_000 }, (_, i) => `user-${i}`)
    const inOf = (campaignId: string) => users.filter((user) => placeOf(user, campaignId) < 2_000)
    const first = inOf('c1')
    assert.ok(Math.abs(first.length - 4_000) < 300, `${first.length}`)
    const both = inOf('c2').filter((user) => placeOf(user, 'c1') < 2_000)
    assert.ok(Math.abs(both.length - 800) < 150, `${both.length}`)
    const inBucket = first.filter((user) => bucketOf(user, 'c1', 10) === 0).length
    assert.ok(Math.abs(inBucket - 400) < 100, `${inBucket}`)
  })

  it('by region takes the region that the platform tells, and none for another', () => {
    const facts = { ...nobody, userId: 'u', campaignId: 'c' }
    assert.equal(outsideOf({ regions: ['CN', 'SG'] }, { ...facts, region: 'SG' }), undefined)
    assert.equal(outsideOf({ regions: ['CN', 'SG'] }, { ...facts, region: 'US' }), 'REGION')
    assert.equal(outsideOf({ regions: ['CN', 'SG'] }, facts), 'REGION')
  })

  it('compares versions by number', () => {
    const ordered = ['0.9', '1', '1.0.1', '1.9', '1.10', '2.0.0.1', '10']
    for (const [i, a] of ordered.entries())
      for (const [j, b] of ordered.entries())
        assert.equal(Math.sign(compareVersions(a, b)), Math.sign(i - j), `${a} ${b}`)
    assert.equal(compareVersions('1', '1.0.0.0'), 0)
  })
})

describe('an outcome', () => {
  it('is the strictest whose threshold is reached', () => {
    const risk = { challenge_at: 10, review_at: 20, deny_at: 30 }
    assert.deepEqual(
      [9, 10, 20, 30].map((score) => outcomeOf(risk, score)),
      ['allow', 'challenge', 'review', 'deny'],
    )
    assert.equal(outcomeOf({}, 1_000), 'allow')
    assert.equal(outcomeOf({ challenge_at: 30, deny_at: 30 }, 30), 'deny')
  })
})

describe('the limits’ configuration', () => {
  it('changes what it names and keeps the rest', () => {
    const limits = parseLimits(' token.user=1/1s, claim.address=60/1m:30 ')
    assert.deepEqual(limits.token.user, { burst: 1, intervalMs: 1_000 })
    assert.deepEqual(limits.claim.address, { burst: 30, intervalMs: 2_000 })
    assert.deepEqual(limits.read, parseLimits().read)
  })

  it('refuses what it does not know', () => {
    for (const text of [
      'token.user',
      'token.user=0/1s',
      'tokens.user=1/1s',
      'token.toString=1/1s',
      'x.y=1/1s',
    ])
      assert.throws(() => parseLimits(text), /LIMITS: /, text)
  })
})

describe('guards in a campaign’s rules', () => {
  it('are refused when a limit can’t be kept, a network is none, or a word is unknown', () => {
    const refused = [
      { limits: { token: { user: { count: 5, per_ms: 1_000, burst: 5 } } } },
      { blocked: { networks: ['example.org'] } },
      { blocked: { networks: ['300.1.1.1'] } },
      { rollout: { percent: 5 } },
      { risk: { rules: [{ kind: 'moon_phase', score: 1 }] } },
    ]
    for (const guards of refused)
      assert.equal(guardsShape.safeParse(guards).success, false, JSON.stringify(guards))
    assert.ok(guardsShape.safeParse({ limits: { token: { user: { count: 1, per_ms: 1_000 } } } }).success)
  })
})
