import { createCipheriv, createECDH, hkdfSync, randomBytes } from 'node:crypto'

/**
 * Message encryption for Web Push (RFC 8291) in one record of the aes128gcm coding (RFC 8188): only the browser that
 * subscribed can read it, not the push service in between.
 */

export interface Receiver {
  /** The browser's P-256 public key, uncompressed: 65 bytes. */
  p256dh: Buffer
  /** Its shared secret: 16 bytes. */
  auth: Buffer
}

/** What is new for each message; given by tests that repeat the RFC's example. */
export interface Once {
  privateKey: Buffer
  salt: Buffer
}

/** Of the coding's header: salt 16, record size 4, key length 1, key 65. A push service takes 4,096 bytes in all. */
const recordSize = 4_096
export const plaintextBytesMax = recordSize - 16 - 1 - 86

/** @throws when the receiver's key is no point of the curve, or the text is too long. */
export function encrypt(text: Buffer, { p256dh, auth }: Receiver, once?: Once): Buffer {
  if (text.length > plaintextBytesMax) throw new Error('the message is too long for a push service')
  const ecdh = createECDH('prime256v1')
  if (once === undefined) ecdh.generateKeys()
  else ecdh.setPrivateKey(once.privateKey)
  const ownKey = ecdh.getPublicKey()
  const salt = once?.salt ?? randomBytes(16)
  const keyInfo = Buffer.concat([Buffer.from('WebPush: info\0'), p256dh, ownKey])
  const secret = derive(ecdh.computeSecret(p256dh), auth, keyInfo, 32)
  const key = derive(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16)
  const nonce = derive(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12)
  const cipher = createCipheriv('aes-128-gcm', key, nonce)
  // 2 ends the last record.
  const sealed = Buffer.concat([cipher.update(text), cipher.update(Buffer.of(2)), cipher.final()])
  const head = Buffer.alloc(5)
  head.writeUInt32BE(recordSize)
  head.writeUInt8(ownKey.length, 4)
  return Buffer.concat([salt, head, ownKey, sealed, cipher.getAuthTag()])
}

function derive(secret: Buffer, salt: Buffer, info: Buffer, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, bytes))
}

/** Whether a browser's keys are such that a message can be encrypted to them. */
export function isReceiver({ p256dh, auth }: Receiver): boolean {
  if (p256dh.length !== 65 || p256dh[0] !== 4 || auth.length !== 16) return false
  const ecdh = createECDH('prime256v1')
  ecdh.generateKeys()
  try {
    ecdh.computeSecret(p256dh)
    return true
  } catch {
    return false
  }
}
