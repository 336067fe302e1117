import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { hmacSha256, sha256 } from './sha256.ts'

const reference = (text: string) => createHash('sha256').update(text).digest('base64url')
const referenceMac = (secret: string, text: string) =>
  createHmac('sha256', secret).update(text).digest('base64url')
const fromHex = (hex: string) => Buffer.from(hex, 'hex').toString('base64url')

test('the standard’s own vectors hold: FIPS 180-4 and RFC 4231', () => {
  assert.equal(sha256('abc'), fromHex('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'))
  assert.equal(sha256(''), fromHex('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'))
  assert.equal(
    sha256('abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq'),
    fromHex('248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1'),
  )
  assert.equal(
    sha256('a'.repeat(1_000_000)),
    fromHex('cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0'),
  )
  assert.equal(
    hmacSha256('Jefe')('what do ya want for nothing?'),
    fromHex('5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'),
  )
})

test('digests and MACs of every length up to many blocks are those of node:crypto', () => {
  const mac = hmacSha256('s'.repeat(43))
  for (let length = 0; length <= 600; length++) {
    const text = 'tidegate '.repeat(67).slice(0, length)
    assert.equal(sha256(text), reference(text), `digest of ${length}`)
    assert.equal(mac(text), referenceMac('s'.repeat(43), text), `MAC of ${length}`)
  }
})

test('MACs of any Unicode text under any secret are those of node:crypto, also of long ones after short ones', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 300 }),
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.integer({ min: 0, max: 20_000 }).map((length) => 'é~'.repeat(length)),
  )
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), text, (secret, value) => {
      assert.equal(sha256(value), reference(value))
      assert.equal(hmacSha256(secret)(value), referenceMac(secret, value))
    }),
    { numRuns: 300 },
  )
})

test('keys made in one isolate don’t disturb each other', () => {
  const one = hmacSha256('a'.repeat(32))
  const other = hmacSha256('b'.repeat(32))
  for (const text of ['x', 'y'.repeat(200), 'x']) {
    assert.equal(one(text), referenceMac('a'.repeat(32), text))
    assert.equal(other(text), referenceMac('b'.repeat(32), text))
  }
})
