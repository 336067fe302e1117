/**
 * SHA-256 (FIPS 180-4) and HMAC (RFC 2104) of texts, in base64url without padding.
 *
 * Not node:crypto: the runtime makes each of its digests a stream with a native handle, and a claim has four. In
 * workerd under load a claim costs 163 µs of CPU with it and 120 µs with this, group commit left out; a bare
 * worker's answer costs 94 µs. Tests hold it against node:crypto and the standard's own vectors.
 */

const roundConstants = Int32Array.of(
  ...[0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5],
  ...[0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174],
  ...[0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da],
  ...[0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967],
  ...[0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85],
  ...[0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070],
  ...[0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3],
  ...[0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2],
)
const initial = [
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
]
const blockBytes = 64
const digestBytes = 32

// Scratch memory of all calls: none of them waits for anything in between.
const schedule = new Int32Array(64)
const hash = new Int32Array(8)
let message = new Uint8Array(4096)

export function sha256(text: string): string {
  hash.set(initial)
  digest(write(text), 0)
  return base64url()
}

/** HMAC under one secret. The secret's two blocks are hashed once, here. */
export function hmacSha256(secret: string): (text: string) => string {
  const key = new Uint8Array(blockBytes)
  const bytes = new TextEncoder().encode(secret)
  if (bytes.length <= blockBytes) {
    key.set(bytes)
  } else {
    hash.set(initial)
    digest(write(secret), 0)
    writeHash(key)
  }
  const inner = afterKey(key, 0x36)
  const outer = afterKey(key, 0x5c)
  return (text) => {
    hash.set(inner)
    digest(write(text), blockBytes)
    writeHash(message)
    hash.set(outer)
    digest(digestBytes, blockBytes)
    return base64url()
  }
}

function afterKey(key: Uint8Array, pad: number): Int32Array {
  hash.set(initial)
  compress(
    key.map((byte) => byte ^ pad),
    0,
  )
  return hash.slice()
}

/** Writes the text's UTF-8 into `message`, with room for the padding, and gives its length. */
function write(text: string): number {
  if (text.length * 3 + 2 * blockBytes > message.length) message = new Uint8Array(text.length * 6)
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit > 127) return new TextEncoder().encodeInto(text, message).written
    message[i] = unit
  }
  return text.length
}

/** Hashes the first `length` bytes of `message`, as the rest of a text of which `before` bytes are hashed already. */
function digest(length: number, before: number): void {
  const end = (length + 9 + blockBytes - 1) & -blockBytes
  message.fill(0, length, end)
  message[length] = 0x80
  // The length in bits; no text of ours comes near 2^32 of them.
  const bits = (before + length) * 8
  message[end - 4] = bits >>> 24
  message[end - 3] = bits >>> 16
  message[end - 2] = bits >>> 8
  message[end - 1] = bits
  for (let at = 0; at < end; at += blockBytes) compress(message, at)
}

/** FIPS 180-4 §6.2.2, one block into `hash`. */
function compress(bytes: Uint8Array, at: number): void {
  const w = schedule
  for (let i = 0; i < 16; i++, at += 4)
    w[i] = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15]!
    const y = w[i - 2]!
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10)
    w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0
  }
  let a = hash[0]!
  let b = hash[1]!
  let c = hash[2]!
  let d = hash[3]!
  let e = hash[4]!
  let f = hash[5]!
  let g = hash[6]!
  let h = hash[7]!
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + roundConstants[i]! + w[i]!) | 0
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
    h = g
    g = f
    f = e
    e = (d + t1) | 0
    d = c
    c = b
    b = a
    a = (t1 + t2) | 0
  }
  hash[0]! += a
  hash[1]! += b
  hash[2]! += c
  hash[3]! += d
  hash[4]! += e
  hash[5]! += f
  hash[6]! += g
  hash[7]! += h
}

function writeHash(into: Uint8Array): void {
  for (let i = 0; i < 8; i++) {
    const word = hash[i]!
    into[4 * i] = word >>> 24
    into[4 * i + 1] = word >>> 16
    into[4 * i + 2] = word >>> 8
    into[4 * i + 3] = word
  }
}

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** `hash` in base64url: ten groups of three bytes, and two bytes more. */
function base64url(): string {
  writeHash(message)
  let out = ''
  for (let i = 0; i < 30; i += 3) {
    const bits = (message[i]! << 16) | (message[i + 1]! << 8) | message[i + 2]!
    out += digits[bits >> 18]! + digits[(bits >> 12) & 63]! + digits[(bits >> 6) & 63]! + digits[bits & 63]!
  }
  const bits = (message[30]! << 8) | message[31]!
  return out + digits[bits >> 10]! + digits[(bits >> 4) & 63]! + digits[(bits << 2) & 63]!
}
