import type { ClaimReply } from '../lua/claim.ts'
import { type RecordState, userTag } from '../schema/acceptance.ts'
import { assertNever } from '../schema/assert.ts'
import { isCampaignId } from '../schema/campaignId.ts'
import { decisions, type Refusal } from '../schema/decision.ts'
import { keyFingerprint, paramsFingerprint } from '../schema/hash.ts'
import { limits } from '../schema/limits.ts'
import type { ProblemExtras } from '../schema/problem.ts'
import type { Keyring } from '../schema/sealed.ts'
import { type ClaimTerms, type ClaimToken, unsealClaimToken } from '../schema/tokens.ts'
import { acceptanceBody } from './acceptance.ts'
import type { Keyrings } from './config.ts'
import type { Core } from './core.ts'
import { claimDirectly } from './direct.ts'
import type { Outcome } from './groupCommit.ts'
import type { ClaimGuard } from './guards/claimGuard.ts'
import { isRefused } from './guards/door.ts'
import type { Refused } from './guards/refused.ts'
import type { Lifetime } from './lifetime.ts'
import { bearer, type Logins } from './login.ts'
import { deviceHashOf } from './mac.ts'
import type { Metrics } from './metrics.ts'
import type { RandomText } from './random.ts'
import { instant, type Refuse } from './refusal.ts'
import { deviceIdOf, isIdempotencyKey, malformed, refuseBody } from './request.ts'
import type { Arbiter, SoldOut } from './soldOut.ts'

export interface ClaimParts {
  readonly keys: Keyrings
  readonly logins: Logins
  readonly arbiter: Arbiter & Pick<SoldOut, 'refuses'>
  /** For entries to a ballot, which are never sold out. */
  readonly ballots: Arbiter
  readonly guard: ClaimGuard
  /** For campaigns that are claimed in the database. */
  readonly core: Pick<Core, 'tell'>
  readonly random: RandomText
  readonly metrics: Metrics
  readonly refuse: Refuse
  clock(): number
}

/**
 * `POST /v1/campaigns/{id}/claims`, the hot path: the cheapest refusal first, one HMAC, then the arbiter.
 * The token alone says who claims what; a login or device that is sent too must be the token's.
 * @throws Away, when a login is sent that can't be checked.
 */
export async function claim(
  parts: ClaimParts,
  request: Request,
  lifetime: Lifetime,
  campaignId: string,
): Promise<Response> {
  const { refuse } = parts
  const body = refuseBody(request, refuse)
  if (body !== undefined) {
    const refusal = await body
    if (refusal !== undefined) return refusal
  }
  const { headers } = request
  const key = headers.get('Idempotency-Key')
  if (!isIdempotencyKey(key)) {
    if (!isCampaignId(campaignId, parts.keys.campaignId)) return refuse('CAMPAIGN_NOT_FOUND')
    return refuse('INVALID_REQUEST', { detail: malformed.idempotencyKey })
  }
  const text = headers.get('Claim-Token')
  if (text !== null && parts.arbiter.refuses(campaignId, text)) {
    parts.metrics.count('SOLD_OUT_HERE')
    return refuse('SOLD_OUT')
  }
  const visit = parts.guard.enter(request, campaignId, lifetime)
  if (isRefused(visit)) return refuseHere(parts, visit)
  const token = openToken(text, parts.keys.claimToken)
  if (token?.campaignId !== campaignId) {
    // Only a claim that fails anyway pays for telling an unknown campaign from a wrong token.
    const exists = isCampaignId(campaignId, parts.keys.campaignId)
    return refuseHere(parts, { code: exists ? 'TOKEN_INVALID' : 'CAMPAIGN_NOT_FOUND' })
  }
  if (visit.nowMs >= token.expiresAtMs + limits.clockLeewayMs)
    return refuseHere(parts, { code: 'TOKEN_EXPIRED' })

  const deviceId = deviceIdOf(request)
  if (deviceId === null) return refuse('INVALID_REQUEST', { detail: malformed.device })
  if (deviceId !== undefined && deviceHashOf(deviceId) !== token.deviceHash)
    return refuseHere(parts, { code: 'TOKEN_INVALID' })
  const refused = parts.guard.admit(visit, token, lifetime)
  if (refused !== undefined) return refuseHere(parts, refused)
  const authorization = headers.get('Authorization')
  if (authorization !== null) {
    const wrong = await refuseLogin(parts, authorization, token.userId, lifetime)
    if (wrong !== undefined) return wrong
  }

  if (token.terms === 'direct') return claimDirectly(parts, request, token)
  const packed = pack(parts.random.requestIdPart(), token, key, stateOf(token.terms))
  const arbiter = token.terms === 'ballot' ? parts.ballots : parts.arbiter
  const outcome = await arbiter.decide(token, { userId: token.userId, packed }, lifetime)
  parts.metrics.count(nameOf(outcome))
  return answer(parts, token, outcome)
}

/** A refusal of what is whole in form; what is malformed is not counted. */
function refuseHere({ metrics, refuse }: ClaimParts, { code, extras }: Refused): Response {
  metrics.count(`${code}_HERE`)
  return refuse(code, extras)
}

/** The letter under which the arbiter records a claim of these terms. */
function stateOf(terms: Exclude<ClaimTerms, 'direct'>): RecordState {
  switch (terms) {
    case 'stream':
      return 'A'
    case 'held':
      return 'V'
    case 'ballot':
      return 'B'
    default:
      return assertNever(terms, 'terms')
  }
}

/** The claim as the arbiter takes it (schema/acceptance.ts). */
function pack(
  random: string,
  { userId, deviceHash, tokenId }: ClaimToken,
  key: string,
  state: RecordState,
): string {
  const rest = random + userTag(userId)
  return rest + keyFingerprint(key) + paramsFingerprint(deviceHash) + tokenId + state
}

function openToken(text: string | null, ring: Keyring): ClaimToken | undefined {
  return text === null || text.length > limits.claimTokenCharsMax ? undefined : unsealClaimToken(text, ring)
}

async function refuseLogin(
  parts: ClaimParts,
  authorization: string,
  userId: string,
  lifetime: Lifetime,
): Promise<Response | undefined> {
  const login = bearer(authorization)
  if (login === undefined) return refuseHere(parts, { code: 'UNAUTHENTICATED' })
  const loginUser = await parts.logins.userOf(login, lifetime)
  if (loginUser === undefined) return refuseHere(parts, { code: 'UNAUTHENTICATED' })
  return loginUser === userId ? undefined : refuseHere(parts, { code: 'TOKEN_INVALID' })
}

/** Under which an outcome is counted: the decision, or `_HERE` behind a refusal that cost the arbiter nothing. */
function nameOf(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'decided':
      return outcome.verdict.decision
    case 'refused':
      return `${outcome.refusal}_HERE`
    case 'busy':
      return 'BUSY_HERE'
    case 'unknown':
      return 'OUTCOME_UNKNOWN'
    default:
      return assertNever(outcome, 'outcome')
  }
}

function answer({ keys, refuse }: ClaimParts, token: ClaimToken, outcome: Outcome): Response {
  switch (outcome.kind) {
    case 'busy':
      return refuse('BUSY', { retry_after_ms: outcome.retryAfterMs ?? limits.retryAfterMs })
    case 'unknown':
      return refuse('OUTCOME_UNKNOWN', { retry_after_ms: limits.retryAfterMs })
    case 'refused':
      return refuse(outcome.refusal)
    case 'decided':
      break
    default:
      assertNever(outcome, 'outcome')
  }
  const { verdict, reply } = outcome
  if (verdict.decision !== 'ACCEPTED' && verdict.decision !== 'REPLAYED')
    return refuse(verdict.decision, extrasOf(verdict.decision, reply))
  const { campaignId, bucket, userId } = token
  const body = acceptanceBody(
    { campaignId, bucket, userId, requestId: verdict.requestId!, packedId: verdict.packedId },
    keys.receipt,
  )
  return new Response(body, verdict.decision === 'ACCEPTED' ? acceptedInit : replayedInit)
}

const personal = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }
// Made once: the runtime reads a record of headers anew for each answer.
const acceptedInit = { status: decisions.ACCEPTED.status, headers: new Headers(personal) }
const replayedInit = {
  status: decisions.REPLAYED.status,
  headers: new Headers({ ...personal, 'Idempotency-Replayed': 'true' }),
}

/** When to come back, where coming back helps. */
function extrasOf(refusal: Refusal, reply: ClaimReply): ProblemExtras | undefined {
  switch (refusal) {
    case 'BUSY':
    case 'NOT_READY':
      return { retry_after_ms: reply.retryAfterMs }
    case 'PAUSED':
      return { retry_after_ms: limits.retryAfterMs }
    case 'NOT_STARTED':
      return { starts_at: instant(reply.startsAtMs), server_time: instant(reply.nowMs) }
    case 'IDEMPOTENCY_MISMATCH':
    case 'TOKEN_USED':
    case 'VOIDED':
    case 'ENDED':
    case 'LIMIT_REACHED':
    case 'SOLD_OUT':
      return undefined
    default:
      return assertNever(refusal, 'refusal')
  }
}
