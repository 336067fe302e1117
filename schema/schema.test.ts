import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  isRequestId,
  packRequestId,
  packTime,
  requestIdOf,
  timeOfRequestId,
  unpackRecord,
  unpackRecords,
} from './acceptance.ts'
import { isCampaignId, makeCampaignId, storeOfCampaign } from './campaignId.ts'
import { decisionOf, decisions } from './decision.ts'
import { MalformedEntry, parseEntry } from './entry.ts'
import { bucketOf, hash53, keyFingerprint, paramsFingerprint } from './hash.ts'
import { problem, problemHeaders } from './problem.ts'
import { type Keyring, parseKeyring, seal, unseal } from './sealed.ts'
import { alphabet, decodeSixbit, encodeSixbit, isSixbit } from './sixbit.ts'
import {
  campaignMachine,
  claimMachine,
  compensationMachine,
  couponMachine,
  IllegalTransition,
  type Machine,
} from './states.ts'
import {
  openAssertion,
  openTicket,
  peekClaimToken,
  sealAcceptance,
  sealAssertion,
  sealClaimToken,
  sealReceipt,
  sealTicket,
  unsealClaimToken,
  unsealReceipt,
} from './tokens.ts'
import { availabilityOf, type CampaignSnapshot } from './view.ts'

const macFor = (secret: string) => (text: string) =>
  createHmac('sha256', secret).update(text).digest('base64url')
const ring = (spec: string): Keyring => parseKeyring('KEYS', spec, macFor)
const secret = (letter: string) => letter.repeat(43)
const one = ring(`k1:${secret('a')}`)
const both = ring(`k2:${secret('b')},k1:${secret('a')}`)
const two = ring(`k2:${secret('b')}`)

const sixbitText = (length: number) =>
  fc.string({ unit: fc.constantFrom(...alphabet), minLength: length, maxLength: length })
const packedId = fc
  .tuple(fc.integer({ min: 0, max: 2 ** 48 - 1 }), fc.constantFrom(...'-012'), sixbitText(12))
  .map(([ms, top, rest]) => packTime(ms) + top + rest)
const anyUser = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 })

describe('request ids and acceptance records', () => {
  it('are UUIDv7 and go back and forth without loss', () => {
    fc.assert(
      fc.property(packedId, (packed) => {
        const id = requestIdOf(packed)
        assert.ok(isRequestId(id), id)
        assert.equal(packRequestId(id), packed)
        assert.equal(timeOfRequestId(id), decodeSixbit(packed.slice(0, 8)))
      }),
    )
  })
  it('sort by time, as text and packed', () => {
    fc.assert(
      fc.property(packedId, packedId, (a, b) => {
        if (a.slice(0, 8) === b.slice(0, 8)) return
        const [earlier, later] = a.slice(0, 8) < b.slice(0, 8) ? [a, b] : [b, a]
        assert.ok(requestIdOf(earlier!) < requestIdOf(later!))
        assert.ok(decodeSixbit(earlier!.slice(0, 8)) < decodeSixbit(later!.slice(0, 8)))
      }),
    )
  })
  it('are refused when malformed', () => {
    for (const bad of [
      '',
      'x',
      '018f0000-0000-4000-8000-000000000000',
      '018F0000-0000-7000-8000-000000000000',
    ])
      assert.ok(!isRequestId(bad))
    assert.throws(() => unpackRecord('short'))
    assert.throws(() => unpackRecord(`${'0'.repeat(43)}Z`))
    assert.throws(() => unpackRecords('0'.repeat(45)))
  })
  it('six-bit text holds any number in its width', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (n) => {
        assert.equal(decodeSixbit(encodeSixbit(n, 9)), n)
        assert.ok(isSixbit(encodeSixbit(n, 9)))
      }),
    )
    assert.throws(() => decodeSixbit('é'))
  })
})

describe('log entries', () => {
  const record = `${packTime(5)}0${'1'.repeat(12)}keykeykeypar1tokentokeA`
  it('are read with rule version, epoch and every claim, also of a user named like a field', () => {
    const entry = parseEntry('5-0', ['v', '3:9', 'v', record, 'u', record])
    assert.deepEqual([entry.kind, entry.ruleVersion, entry.epoch], ['claims', 3, 9])
    assert.deepEqual(
      entry.claims.map((claim) => claim.userId),
      ['v', 'u'],
    )
    assert.equal(entry.claims[0]!.acceptedAtMs, 5)
    assert.equal(parseEntry('5-0', ['b', '3:9', 'u', record]).kind, 'ballot')
  })
  it('that are malformed in any way throw MalformedEntry, never something else', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.string(), fc.constantFrom('v', '1:1', record))), (fields) => {
        try {
          parseEntry('1-0', fields)
        } catch (error) {
          assert.ok(error instanceof MalformedEntry)
        }
      }),
    )
  })
})

describe('signed texts', () => {
  const at = { campaignId: 'c1', bucket: 0, userId: 'u' }
  const token = {
    campaignId: 'c123',
    bucket: 7,
    userId: 'u',
    deviceHash: 'device-1',
    notBeforeMs: 1,
    expiresAtMs: 2,
    tokenId: '123456789',
    terms: 'stream' as const,
  }
  it('carry any user id and come back as they were', () => {
    fc.assert(
      fc.property(anyUser, (userId) => {
        assert.deepEqual(unsealClaimToken(sealClaimToken({ ...token, userId }, one), one), {
          ...token,
          userId,
        })
        const requestId = requestIdOf(`${packTime(1000)}0${'2'.repeat(12)}`)
        const receipt = { campaignId: 'c1', bucket: 77, requestId, userId }
        assert.deepEqual(unsealReceipt(sealReceipt(receipt, one), one), receipt)
        assert.deepEqual(openTicket(sealTicket(receipt, one), requestId, 2000, one), receipt)
        const both = sealAcceptance(receipt, packRequestId(requestId), one)
        assert.deepEqual(both, { ticket: sealTicket(receipt, one), receipt: sealReceipt(receipt, one) })
        assert.equal(openAssertion(sealAssertion(userId, 1000, one), 2000, one), userId)
      }),
    )
  })
  it('of a claim can be peeked into without a proof, and then say what they say with one', () => {
    fc.assert(
      fc.property(anyUser, fc.nat(1023), (userId, bucket) => {
        const text = sealClaimToken({ ...token, userId, bucket }, one)
        const hint = peekClaimToken(text, token.campaignId)
        // A user id that needs escapes is left to the full reading.
        assert.deepEqual(hint, encodeURIComponent(userId) === userId ? { userId, bucket } : undefined)
        assert.equal(peekClaimToken(text, 'c12'), undefined)
        assert.equal(peekClaimToken(text, 'c1234'), undefined)
      }),
    )
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...':%c123ut'), maxLength: 40 }), (text) => {
        const hint = peekClaimToken(text, 'c123')
        assert.ok(hint === undefined || Number.isInteger(hint.bucket))
      }),
    )
  })
  it('are worthless with any one bit changed', () => {
    const text = sealClaimToken(token, one)
    for (let i = 0; i < text.length; i++) {
      for (let bit = 0; bit < 7; bit++) {
        const altered =
          text.slice(0, i) + String.fromCharCode(text.charCodeAt(i) ^ (1 << bit)) + text.slice(i + 1)
        assert.equal(unsealClaimToken(altered, one), undefined, `${i}/${bit}`)
      }
    }
  })
  it('are worthless for another purpose, and under an unknown key', () => {
    const requestId = requestIdOf(`${packTime(1000)}0${'2'.repeat(12)}`)
    const receipt = sealReceipt({ campaignId: 'c1', bucket: 0, requestId, userId: 'u' }, one)
    assert.equal(unsealClaimToken(receipt, one), undefined)
    assert.equal(unsealReceipt(receipt, two), undefined)
    assert.equal(openAssertion(sealTicket({ ...at, requestId }, one), 0, one), undefined)
  })
  it('of one acceptance share an HMAC, and neither can be made into the other', () => {
    const requestId = requestIdOf(`${packTime(1000)}0${'2'.repeat(12)}`)
    const ticket = sealTicket({ ...at, requestId }, one)
    const receipt = sealReceipt({ ...at, requestId }, one)
    const proof = (text: string) => text.slice(text.lastIndexOf(':') + 1)
    assert.equal(proof(ticket).length, 21)
    assert.equal(proof(receipt).length, 21)
    assert.notEqual(proof(ticket), proof(receipt))
    const relabelled = (text: string, kind: string) => kind + text.slice(3)
    assert.equal(unsealReceipt(relabelled(ticket, 'rc2'), one), undefined)
    assert.equal(openTicket(relabelled(receipt, 'tk3'), requestId, 2000, one), undefined)
    for (const text of [ticket, receipt]) {
      for (let i = 0; i < text.length; i++) {
        const altered = text.slice(0, i) + String.fromCharCode(text.charCodeAt(i) ^ 1) + text.slice(i + 1)
        assert.equal(openTicket(altered, requestId, 2000, one), undefined, `${i}`)
        assert.equal(unsealReceipt(altered, one), undefined, `${i}`)
      }
    }
  })
  it('live through a rotation: the new key signs, the old still verifies, until it is taken away', () => {
    const old = sealClaimToken(token, one)
    assert.ok(unsealClaimToken(old, both))
    assert.equal(unsealClaimToken(old, two), undefined)
    const fresh = sealClaimToken(token, both)
    assert.ok(fresh.startsWith('ct1:k2:'))
    assert.ok(unsealClaimToken(fresh, two))
    assert.equal(unsealClaimToken(fresh, one), undefined)
  })
  it('of a ticket open one claim only, and not for ever', () => {
    const requestId = requestIdOf(`${packTime(1000)}0${'2'.repeat(12)}`)
    const other = requestIdOf(`${packTime(1000)}0${'3'.repeat(12)}`)
    const ticket = sealTicket({ ...at, requestId }, one)
    assert.equal(openTicket(ticket, other, 2000, one), undefined)
    assert.equal(openTicket(ticket, 'nonsense', 2000, one), undefined)
    assert.equal(openTicket(ticket, requestId, 1000 + 24 * 3_600_000, one), undefined)
  })
  it('never throw on hostile text', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), (text) => {
        assert.equal(unseal('ct1', `ct1:${text}`, 8, one), undefined)
        assert.equal(unseal('ct1', text, 8, one), undefined)
      }),
    )
  })
  it('need keys of a decent form, and the error never shows a secret', () => {
    for (const bad of ['', 'nokid', 'k1:short', `k 1:${secret('a')}`, `k1:${secret('a')},k1:${secret('b')}`])
      assert.throws(
        () => ring(bad),
        (error: Error) => error.message.startsWith('KEYS') && !error.message.includes('aaa'),
      )
    assert.throws(() => seal('x', [], one, 'unknown'))
  })
})

describe('campaign ids', () => {
  it('say which store has the campaign, and nobody can make one say another', () => {
    const id = makeCampaignId(randomBytes(16), one, 'two')
    assert.match(id, /^c[0-9a-z]{24}-two$/)
    assert.ok(isCampaignId(id, one))
    assert.equal(storeOfCampaign(id), 'two')
    const plain = makeCampaignId(randomBytes(16), one)
    assert.equal(storeOfCampaign(plain), 'main')
    const moved = [id.slice(0, 25), `${id.slice(0, 25)}-one`, `${plain}-two`, `${plain}-`, `${id}-two`]
    for (const bad of moved) assert.ok(!isCampaignId(bad, one), bad)
  })
  it('verify themselves, under an old key too', () => {
    for (let i = 0; i < 50; i++) {
      const id = makeCampaignId(randomBytes(16), one)
      assert.match(id, /^c[0-9a-z]{24}$/)
      assert.ok(isCampaignId(id, one))
      assert.ok(isCampaignId(id, both))
      assert.ok(!isCampaignId(id, two))
    }
  })
  it('that nobody made are refused', () => {
    const id = makeCampaignId(randomBytes(16), one)
    for (let i = 1; i < id.length; i++) {
      const altered = id.slice(0, i) + (id[i] === '0' ? '1' : '0') + id.slice(i + 1)
      assert.ok(!isCampaignId(altered, one))
    }
    for (const bad of ['', 'c', id.toUpperCase(), `${id}0`, `c${'0'.repeat(24)}`])
      assert.ok(!isCampaignId(bad, one))
  })
})

describe('hashes', () => {
  it('send a user always to the same bucket, and spread users evenly', () => {
    const counts = new Array<number>(8).fill(0)
    for (let i = 0; i < 80_000; i++) {
      const bucket = bucketOf(`user-${i}`, 'c1', 8)
      assert.equal(bucketOf(`user-${i}`, 'c1', 8), bucket)
      counts[bucket]!++
    }
    for (const count of counts) assert.ok(Math.abs(count - 10_000) < 500, String(counts))
    assert.equal(bucketOf('anyone', 'c1', 1), 0)
  })
  it('stay as they are: buckets and fingerprints are stored', () => {
    assert.equal(hash53('tidegate'), 1896358977237040)
    assert.deepEqual(
      [bucketOf('user-1', 'c1', 100), keyFingerprint('key-1'), paramsFingerprint('device-1')],
      [73, 'Gvy9ygc_V', 'OZIU'],
    )
    assert.equal(keyFingerprint('x').length, 9)
    assert.equal(paramsFingerprint('x').length, 4)
  })
})

describe('states', () => {
  const machines: Machine<string>[] = [
    campaignMachine as Machine<string>,
    claimMachine as Machine<string>,
    couponMachine as Machine<string>,
    compensationMachine as Machine<string>,
  ]
  for (const machine of machines) {
    it(`of a ${machine.name} can all be reached, and illegal moves throw`, () => {
      const reached = new Set([machine.initial])
      for (const from of reached) for (const to of machine.states) if (machine.can(from, to)) reached.add(to)
      assert.deepEqual([...reached].sort(), [...machine.states].sort())
      for (const from of machine.states) {
        for (const to of machine.states) {
          if (machine.can(from, to)) assert.equal(machine.move(from, to), to)
          else assert.throws(() => machine.move(from, to), IllegalTransition)
        }
      }
      assert.throws(() => machine.move('NONSENSE', machine.initial), IllegalTransition)
    })
  }
  it('of a campaign: voided from any but ended', () => {
    for (const state of campaignMachine.states) {
      if (state !== 'ENDED' && state !== 'VOIDED') assert.ok(campaignMachine.can(state, 'VOIDED'), state)
    }
    assert.ok(!campaignMachine.can('ENDED', 'VOIDED'))
  })
})

describe('decisions and problems', () => {
  it('have one letter each, and an unknown letter is an error', () => {
    const letters = Object.values(decisions).map((decision) => decision.letter)
    assert.equal(new Set(letters).size, letters.length)
    for (const name of Object.keys(decisions) as (keyof typeof decisions)[])
      assert.equal(decisionOf(decisions[name].letter), name)
    assert.throws(() => decisionOf('?'))
  })
  it('carry the statuses of DESIGN §7', () => {
    const expected = {
      SOLD_OUT: 409,
      LIMIT_REACHED: 409,
      NOT_STARTED: 409,
      TOKEN_USED: 409,
      IDEMPOTENCY_MISMATCH: 422,
      ENDED: 410,
      VOIDED: 410,
      NOT_ELIGIBLE: 403,
      TOKEN_INVALID: 401,
      TOKEN_EXPIRED: 401,
      UNAUTHENTICATED: 401,
      CAMPAIGN_NOT_FOUND: 404,
      RATE_LIMITED: 429,
      PAUSED: 503,
      BUSY: 503,
      NOT_READY: 503,
      OUTCOME_UNKNOWN: 503,
    } as const
    for (const [code, status] of Object.entries(expected)) {
      const body = problem(code as keyof typeof expected, 'r1', { retry_after_ms: 1 })
      assert.equal(body.status, status, code)
      assert.deepEqual([body.code, body.request_id], [code, 'r1'])
    }
    const headers = problemHeaders({ retry_after_ms: 1001 })
    assert.deepEqual([headers['Retry-After'], headers['Cache-Control']], ['2', 'no-store'])
  })
})

describe('availability', () => {
  const base = { state: 'ACTIVE', starts_at_ms: 10, ends_at_ms: 20, sold_out: false } as CampaignSnapshot
  it('follows state and window, half open', () => {
    const at = (ms: number, changes: Partial<CampaignSnapshot> = {}) =>
      availabilityOf({ ...base, ...changes }, ms)
    assert.deepEqual([at(9), at(10), at(19), at(20)], ['upcoming', 'open', 'open', 'ended'])
    assert.equal(at(15, { sold_out: true }), 'sold_out')
    assert.equal(at(15, { state: 'PAUSED' }), 'paused')
    assert.equal(at(15, { state: 'APPROVED' }), 'upcoming')
    assert.equal(at(5, { state: 'VOIDED' }), 'ended')
    assert.equal(at(25, { state: 'PAUSED' }), 'ended')
  })
})
