import {
  createDecipheriv,
  createECDH,
  type ECDH,
  generateKeyPairSync,
  hkdfSync,
  randomBytes,
} from 'node:crypto'

/** What a browser does with a push (RFC 8291 §4), written apart from what encrypts it. */
export function decrypt(sealed: Buffer, browser: ECDH, auth: Buffer): Buffer {
  const hkdf = (key: Buffer, salt: Buffer, info: Buffer, length: number) =>
    Buffer.from(hkdfSync('sha256', key, salt, info, length))
  const salt = sealed.subarray(0, 16)
  const keyLength = sealed[20]!
  const sender = sealed.subarray(21, 21 + keyLength)
  const record = sealed.subarray(21 + keyLength)
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), browser.getPublicKey(), sender])
  const secret = hkdf(browser.computeSecret(sender), auth, info, 32)
  const key = hkdf(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16)
  const nonce = hkdf(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12)
  const decipher = createDecipheriv('aes-128-gcm', key, nonce)
  decipher.setAuthTag(record.subarray(-16))
  const padded = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()])
  return padded.subarray(0, padded.lastIndexOf(2))
}

/** A browser that subscribed at a push service, which is a server of the test's. */
export interface Browser {
  subscription: { endpoint: string; keys: { p256dh: string; auth: string } }
  read(sealed: Buffer): Record<string, unknown>
}

export function openBrowser(endpoint: string): Browser {
  const ecdh = createECDH('prime256v1')
  const p256dh = ecdh.generateKeys().toString('base64url')
  const auth = randomBytes(16)
  return {
    subscription: { endpoint, keys: { p256dh, auth: auth.toString('base64url') } },
    read: (sealed) => JSON.parse(decrypt(sealed, ecdh, auth).toString()) as Record<string, unknown>,
  }
}

export function makeVapidKey(): string {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }).d!
}
