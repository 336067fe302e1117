import { hash53 } from './hash.ts'
import { alphabet, decodeSixbit, encodeSixbit, isSixbit, sixbitAt } from './sixbit.ts'

/**
 * The packed record of one acceptance, as it stands in the users hash and in the log: 44 printable characters.
 *
 *   0–8    time of acceptance, ms, 48 bits, set by the arbiter's clock
 *   8–21   rest of the request id, 74 bits: 56 random, 18 of a hash of the user (`userTag`)
 *   21–30  fingerprint of the idempotency key
 *   30–34  fingerprint of the parameters
 *   34–43  id of the claim token
 *   43     state letter
 *
 * 44 characters are the most that fit a 48-byte allocation in Redis. A user's field holds the records of all
 * acceptances one after the other, oldest first; the request id is a UUIDv7 made of the first 21 characters.
 */
export const recordChars = 44
/** What a caller sends for one claim: the record without its time. Its state letter is A, V for one to be held, or B. */
export const claimChars = 36

export const recordStates = {
  A: 'accepted, not settled',
  D: 'delivered: a coupon was issued',
  X: 'rejected, stock not returned yet',
  R: 'returned: stock given back, not counted against the limit',
  V: 'held for review',
  B: 'ballot entry, no stock taken, not drawn yet',
} as const
export type RecordState = keyof typeof recordStates

export interface Acceptance {
  /** UUIDv7; its time is the time of acceptance. */
  requestId: string
  acceptedAtMs: number
  keyFingerprint: string
  paramsFingerprint: string
  tokenId: string
  state: RecordState
}

/** @throws when the text is not one whole record. */
export function unpackRecord(record: string): Acceptance {
  if (record.length !== recordChars || !isSixbit(record)) throw new Error('malformed acceptance record')
  const state = record[43] as RecordState
  if (!(state in recordStates)) throw new Error(`unknown acceptance state ${JSON.stringify(state)}`)
  return {
    requestId: requestIdOf(record.slice(0, 21)),
    acceptedAtMs: decodeSixbit(record.slice(0, 8)),
    keyFingerprint: record.slice(21, 30),
    paramsFingerprint: record.slice(30, 34),
    tokenId: record.slice(34, 43),
    state,
  }
}

/** All acceptances in a user's field, oldest first. */
export function unpackRecords(field: string): Acceptance[] {
  if (field.length % recordChars !== 0) throw new Error('malformed users field')
  const all: Acceptance[] = []
  for (let at = 0; at < field.length; at += recordChars)
    all.push(unpackRecord(field.slice(at, at + recordChars)))
  return all
}

/** The packed record; the inverse of `unpackRecord`. @throws when a part has not its width. */
export function packRecord(acceptance: Omit<Acceptance, 'acceptedAtMs'>): string {
  const { requestId, keyFingerprint, paramsFingerprint, tokenId, state } = acceptance
  const record = packRequestId(requestId) + keyFingerprint + paramsFingerprint + tokenId + state
  if (record.length !== recordChars || !isSixbit(record)) throw new Error('malformed acceptance')
  return record
}

export function packTime(ms: number): string {
  return encodeSixbit(ms, 8)
}

const hex = (value: number, digits: number) => value.toString(16).padStart(digits, '0')

/** Hexadecimal of 12 bits, which two six-bit characters are. */
const triples = Array.from({ length: 4096 }, (_, value) => hex(value, 3))
const tripleAt = (packed: string, at: number) =>
  triples[(sixbitAt(packed, at) << 6) | sixbitAt(packed, at + 1)]!

let lastTime = ''
let lastTimeHex = ''
/** The first two groups of a UUIDv7. The claims of one call share theirs. */
function timeHex(time: string): string {
  if (time !== lastTime) {
    const digits = hex(decodeSixbit(time), 12)
    lastTimeHex = `${digits.slice(0, 8)}-${digits.slice(8)}`
    lastTime = time
  }
  return lastTimeHex
}

/**
 * UUIDv7 (RFC 9562) of a packed request id: 8 characters of time and 13 of randomness, of which the first
 * counts with its low two bits only.
 */
export function requestIdOf(packed: string): string {
  const c2 = sixbitAt(packed, 10)
  const randA = triples[((sixbitAt(packed, 8) & 3) << 10) | (sixbitAt(packed, 9) << 4) | (c2 >> 2)]!
  const variant = (8 | (c2 & 3)).toString(16)
  const rest = tripleAt(packed, 13) + tripleAt(packed, 15) + tripleAt(packed, 17) + tripleAt(packed, 19)
  return `${timeHex(packed.slice(0, 8))}-7${randA}-${variant}${tripleAt(packed, 11)}-${rest}`
}

const uuid7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
export function isRequestId(text: string): boolean {
  return uuid7.test(text)
}

/** The 21 characters of a UUIDv7; the inverse of `requestIdOf`. @throws on anything else. */
export function packRequestId(requestId: string): string {
  if (!isRequestId(requestId)) throw new Error('not a UUIDv7')
  const digits = requestId.replaceAll('-', '')
  const randA = Number.parseInt(digits.slice(13, 16), 16)
  const top = Number.parseInt(digits.slice(16, 20), 16) & 0x3fff
  return (
    packTime(Number.parseInt(digits.slice(0, 12), 16)) +
    alphabet[randA >> 10]! +
    alphabet[(randA >> 4) & 63]! +
    alphabet[((randA & 15) << 2) | (top >> 12)]! +
    alphabet[(top >> 6) & 63]! +
    alphabet[top & 63]! +
    encodeSixbit(Number.parseInt(digits.slice(20), 16), 8)
  )
}

/**
 * The last 18 bits of a request id are a hash of its user. So a status question about somebody else's claim, or an
 * invented one, is answered without looking anywhere; a stranger's id passes once in 262,144 tries, and then finds
 * nothing of his own.
 */
export function userTag(userId: string): string {
  return encodeSixbit(hash53(userId, 2) % 262_144, 3)
}

/** Whether this UUIDv7 can be a request of this user. */
export function mayBelongTo(requestId: string, userId: string): boolean {
  return isRequestId(requestId) && packRequestId(requestId).slice(18) === userTag(userId)
}

/** Time of a UUIDv7 in ms since the epoch. */
export function timeOfRequestId(requestId: string): number {
  return Number.parseInt(requestId.slice(0, 8) + requestId.slice(9, 13), 16)
}
