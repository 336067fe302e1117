import { randomFillSync } from 'node:crypto'

const uuids = 512
const bytesEach = 10
const pool = Buffer.allocUnsafe(uuids * bytesEach)
let at = pool.length

/**
 * A UUIDv7 (RFC 9562) for this instant, in ms since the epoch. Randomness is drawn for many at once: issuing a
 * full batch takes some eight thousand of them.
 */
export function uuid7(nowMs: number): string {
  if (at === pool.length) {
    randomFillSync(pool)
    at = 0
  }
  const time = nowMs.toString(16).padStart(12, '0')
  const random = pool.toString('hex', at, at + bytesEach)
  at += bytesEach
  const variant = (8 | (Number.parseInt(random.charAt(3), 16) & 3)).toString(16)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-${variant}${random.slice(4, 7)}-${random.slice(8)}`
}

/**
 * The id of the coupon that a request becomes: the request's own, as UUIDv8. So a request has one coupon whoever issues
 * it and however often, also in a ledger that is rebuilt from the requests.
 */
export function couponIdOf(requestId: string): string {
  return `${requestId.slice(0, 14)}8${requestId.slice(15)}`
}
