import assert from 'node:assert/strict'
import { createECDH, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { encrypt, isReceiver, plaintextBytesMax } from './encrypt.ts'
import { decrypt } from './testing.ts'

const bytes = (text: string) => Buffer.from(text, 'base64url')

test('a message is encrypted exactly as in RFC 8291, appendix A', () => {
  const receiver = {
    p256dh: bytes('BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4'),
    auth: bytes('BTBZMqHH6r4Tts7J_aSIgg'),
  }
  const once = {
    privateKey: bytes('yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw'),
    salt: bytes('DGv6ra1nlYgDCS1FRnbzlw'),
  }
  const sealed = encrypt(Buffer.from('When I grow up, I want to be a watermelon'), receiver, once)
  assert.equal(
    sealed.toString('base64url'),
    'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
  )
})

test('only the browser’s own key opens it; the longest message fits what push services take', () => {
  const browser = createECDH('prime256v1')
  const auth = randomBytes(16)
  const receiver = { p256dh: browser.generateKeys(), auth }
  const text = Buffer.alloc(plaintextBytesMax, 'x')
  const sealed = encrypt(text, receiver)
  assert.ok(sealed.length <= 4_096)
  assert.deepEqual(decrypt(sealed, browser, auth), text)
  const other = createECDH('prime256v1')
  other.generateKeys()
  assert.throws(() => decrypt(sealed, other, auth))
  assert.notDeepEqual(encrypt(text, receiver), sealed, 'two messages share a key')
  assert.throws(() => encrypt(Buffer.alloc(plaintextBytesMax + 1), receiver))
})

test('keys that no message can be encrypted to are recognised', () => {
  const p256dh = createECDH('prime256v1').generateKeys()
  const auth = randomBytes(16)
  assert.ok(isReceiver({ p256dh, auth }))
  assert.ok(!isReceiver({ p256dh: p256dh.subarray(1), auth }))
  assert.ok(!isReceiver({ p256dh: Buffer.concat([Buffer.of(4), randomBytes(64)]), auth }))
  assert.ok(!isReceiver({ p256dh, auth: auth.subarray(1) }))
})
