import { packRequestId, requestIdOf, timeOfRequestId } from './acceptance.ts'
import { limits } from './limits.ts'
import { decodeField, encodeField, equalConstantTime, type Keyring, seal, unseal } from './sealed.ts'

/**
 * The four signed texts of the product. All instants are ms since the epoch; user ids are any Unicode text.
 *
 *   claim token  a user may claim once, in this campaign, on this device, in this window
 *   ticket       its bearer may read this claim's status and events
 *   receipt      this claim was accepted (proof after a loss of Redis)
 *   assertion    the edge tells the core who the verified user is
 */

export interface ClaimToken {
  campaignId: string
  bucket: number
  userId: string
  /** Hash of the device id, see `hash53`; a claim from another device is refused. */
  deviceHash: string
  notBeforeMs: number
  expiresAtMs: number
  /** 9 six-bit characters, unique per token: a second acceptance under it is refused. */
  tokenId: string
  terms: ClaimTerms
}

/**
 * How a claim under this token is treated: `stream`, the usual way; `held`, accepted but kept for review (CL5);
 * `direct`, through the database (IS13); `ballot`, an entry to a draw (CL19).
 */
export type ClaimTerms = 'stream' | 'held' | 'direct' | 'ballot'
const termLetters = { stream: 's', held: 'h', direct: 'd', ballot: 'b' } as const satisfies Record<
  ClaimTerms,
  string
>
const termOf = new Map<string, ClaimTerms>(
  (Object.keys(termLetters) as ClaimTerms[]).map((term) => [termLetters[term], term]),
)

const claimTokenKind = 'ct1'

export function sealClaimToken(token: ClaimToken, ring: Keyring): string {
  return seal(
    claimTokenKind,
    [
      token.campaignId,
      token.bucket.toString(36),
      token.notBeforeMs.toString(36),
      token.expiresAtMs.toString(36),
      token.tokenId,
      token.deviceHash,
      termLetters[token.terms],
      encodeField(token.userId),
    ],
    ring,
  )
}

/** The token, if it is genuine; its campaign, device and window are for the caller to compare. */
export function unsealClaimToken(text: string, ring: Keyring): ClaimToken | undefined {
  const fields = unseal(claimTokenKind, text, 8, ring)
  const terms = termOf.get(fields?.[6] ?? '')
  if (fields === undefined || terms === undefined) return undefined
  return {
    campaignId: fields[0]!,
    bucket: Number.parseInt(fields[1]!, 36),
    notBeforeMs: Number.parseInt(fields[2]!, 36),
    expiresAtMs: Number.parseInt(fields[3]!, 36),
    tokenId: fields[4]!,
    deviceHash: fields[5]!,
    terms,
    userId: decodeField(fields[7]!),
  }
}

/** What a claim token says, without any proof: good enough to shed by, never to decide by. */
export interface ClaimTokenHint {
  bucket: number
  userId: string
}

/** Reads the hint of a token for this campaign; undefined when it can't be one. Much cheaper than a MAC. */
export function peekClaimToken(text: string, campaignId: string): ClaimTokenHint | undefined {
  const kidEnd = text.indexOf(':', claimTokenKind.length + 1)
  if (kidEnd < 0 || !text.startsWith(campaignId, kidEnd + 1)) return undefined
  const bucketAt = kidEnd + 2 + campaignId.length
  const userEnd = text.lastIndexOf(':')
  const userAt = text.lastIndexOf(':', userEnd - 1) + 1
  if (text.charCodeAt(bucketAt - 1) !== 58 || userAt <= bucketAt) return undefined
  const encoded = text.slice(userAt, userEnd)
  // An escape could be malformed: such a user's token is read in full, behind its MAC.
  if (encoded.includes('%')) return undefined
  const bucket = Number.parseInt(text.slice(bucketAt, text.indexOf(':', bucketAt)), 36)
  return Number.isNaN(bucket) ? undefined : { bucket, userId: encoded }
}

/** Whose accepted claim it is, and where its record stands: its status can be told without the ledger. */
export interface Ticket {
  campaignId: string
  bucket: number
  requestId: string
  userId: string
}

/** What a receipt proves: the same, and that it was accepted. */
export type Receipt = Ticket

/**
 * Every 202 carries both, so one HMAC over `ac1:kid:campaign:bucket:packed id:user` signs them: its first 21
 * characters (126 bits) are the ticket's, its last 21 (124 bits) the receipt's. Neither half tells the other, so
 * a ticket, which stands in addresses, can't be made into a receipt.
 */
const acceptanceKind = 'ac1'
const ticketKind = 'tk3'
const receiptKind = 'rc2'
const halfChars = 21
const kindChars = acceptanceKind.length

/** Ticket and receipt of one acceptance, from its packed request id. A replayed acceptance has the same ones. */
export function sealAcceptance(
  { campaignId, bucket, userId }: Omit<Ticket, 'requestId'>,
  packedId: string,
  ring: Keyring,
): { ticket: string; receipt: string } {
  const kid = ring.currentKid
  const rest = `:${kid}:${campaignId}:${bucket.toString(36)}:${packedId}:${encodeField(userId)}`
  const mac = ring.mac(kid)!(acceptanceKind + rest)
  return {
    ticket: `${ticketKind}${rest}:${mac.slice(0, halfChars)}`,
    receipt: `${receiptKind}${rest}:${mac.slice(-halfChars)}`,
  }
}

export function sealTicket(ticket: Ticket, ring: Keyring): string {
  return sealAcceptance(ticket, packRequestId(ticket.requestId), ring).ticket
}

export function sealReceipt(receipt: Receipt, ring: Keyring): string {
  return sealAcceptance(receipt, packRequestId(receipt.requestId), ring).receipt
}

/** What a genuine ticket or receipt says; undefined: malformed, unknown key or altered. */
function openAcceptance(kind: string, text: string, ring: Keyring): Ticket | undefined {
  const macStart = text.lastIndexOf(':')
  const kidEnd = text.indexOf(':', kindChars + 1)
  if (!text.startsWith(`${kind}:`) || kidEnd < 0 || macStart <= kidEnd) return undefined
  const mac = ring.mac(text.slice(kindChars + 1, kidEnd))?.(acceptanceKind + text.slice(kindChars, macStart))
  const half = kind === ticketKind ? mac?.slice(0, halfChars) : mac?.slice(-halfChars)
  if (half === undefined || !equalConstantTime(half, text.slice(macStart + 1))) return undefined
  const fields = text.slice(kidEnd + 1, macStart).split(':')
  if (fields.length !== 4) return undefined
  const [campaignId, bucket, packedId, user] = fields as [string, string, string, string]
  return {
    campaignId,
    bucket: Number.parseInt(bucket, 36),
    requestId: requestIdOf(packedId),
    userId: decodeField(user),
  }
}

/** The ticket, if it is genuine, unexpired and opens this claim. Its expiry follows from the request id's time. */
export function openTicket(
  text: string,
  requestId: string,
  nowMs: number,
  ring: Keyring,
): Ticket | undefined {
  const ticket = openAcceptance(ticketKind, text, ring)
  if (ticket === undefined || ticket.requestId !== requestId) return undefined
  return nowMs < timeOfRequestId(requestId) + limits.ticketLifetimeMs ? ticket : undefined
}

export function unsealReceipt(text: string, ring: Keyring): Receipt | undefined {
  return openAcceptance(receiptKind, text, ring)
}

const assertionKind = 'as1'

export function sealAssertion(userId: string, nowMs: number, ring: Keyring): string {
  return seal(assertionKind, [(nowMs + limits.assertionLifetimeMs).toString(36), encodeField(userId)], ring)
}

/** The user that the edge vouches for, or undefined when forged or older than its lifetime (plus leeway). */
export function openAssertion(text: string, nowMs: number, ring: Keyring): string | undefined {
  const fields = unseal(assertionKind, text, 2, ring)
  if (fields === undefined) return undefined
  if (nowMs > Number.parseInt(fields[0]!, 36) + limits.clockLeewayMs) return undefined
  return decodeField(fields[1]!)
}
