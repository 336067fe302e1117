import { bucketOf } from '../schema/hash.ts'
import { limits } from '../schema/limits.ts'
import type { ProblemCode, ProblemExtras } from '../schema/problem.ts'
import type { Keyring } from '../schema/sealed.ts'
import { type ClaimTerms, type ClaimToken, sealClaimToken } from '../schema/tokens.ts'
import type { CampaignSnapshot } from '../schema/view.ts'
import { bounds } from './bounds.ts'
import type { Campaigns } from './campaigns.ts'
import { isRefused } from './guards/door.ts'
import type { IssueGuard } from './guards/issueGuard.ts'
import type { Lifetime } from './lifetime.ts'
import { bearer, type Logins } from './login.ts'
import { deviceHashOf } from './mac.ts'
import type { RandomText } from './random.ts'
import { instant, personalJson, type Refuse } from './refusal.ts'
import { deviceIdOf, malformed, refuseBody } from './request.ts'

export interface IssueParts {
  readonly campaigns: Campaigns
  readonly logins: Logins
  readonly keys: Keyring
  readonly guard: IssueGuard
  readonly random: RandomText
  readonly refuse: Refuse
  clock(): number
}

/**
 * `POST /v1/campaigns/{id}/claim-tokens`: 201 `{claim_token, not_before, expires_at}` for the user of the login
 * and the device of `Device-Id`. Refusals: CAMPAIGN_NOT_FOUND, UNAUTHENTICATED, INVALID_REQUEST, NOT_STARTED
 * (tokens can't be had yet), ENDED, VOIDED, and the guards': RATE_LIMITED, NOT_ELIGIBLE, CHALLENGE_REQUIRED.
 * @throws Away
 */
export async function issueToken(
  parts: IssueParts,
  request: Request,
  lifetime: Lifetime,
  campaignId: string,
): Promise<Response> {
  const { refuse, clock, guard } = parts
  const visit = guard.enter(request, lifetime)
  if (isRefused(visit)) return refuse(visit.code, visit.extras)
  const snapshot = await parts.campaigns.find(campaignId, lifetime)
  if (snapshot === undefined) return refuse('CAMPAIGN_NOT_FOUND')
  const body = await refuseBody(request, refuse)
  if (body !== undefined) return body
  const login = bearer(request.headers.get('Authorization'))
  const userId = login === undefined ? undefined : await parts.logins.userOf(login, lifetime)
  if (userId === undefined) return refuse('UNAUTHENTICATED')
  const deviceId = deviceIdOf(request)
  if (!deviceId) return refuse('INVALID_REQUEST', { detail: malformed.device })

  const nowMs = clock()
  const closed = closedFor(snapshot, nowMs)
  if (closed !== undefined) return refuse(closed.code, closed.extras)
  const deviceHash = deviceHashOf(deviceId)
  const admitted = await guard.admit({ visit, snapshot, request, userId, deviceHash }, lifetime)
  if (isRefused(admitted)) return refuse(admitted.code, admitted.extras)
  const token: ClaimToken = {
    campaignId,
    bucket: bucketOf(userId, campaignId, snapshot.bucket_count),
    userId,
    deviceHash,
    ...windowOf(snapshot, nowMs),
    tokenId: parts.random.text(9),
    // A draw looks at all entries after the end: none has to be held before.
    terms: termsOf(snapshot, admitted.terms),
  }
  const answer = {
    claim_token: sealClaimToken(token, parts.keys),
    not_before: instant(token.notBeforeMs),
    expires_at: instant(token.expiresAtMs),
  }
  return personalJson(JSON.stringify(answer), 201)
}

function termsOf({ mode, delivery }: CampaignSnapshot, admitted: ClaimTerms): ClaimTerms {
  if (mode === 'ballot') return 'ballot'
  return delivery === 'direct' ? 'direct' : admitted
}

/** Why there is no token now. A paused campaign gives them: it may go on before they expire. */
export function closedFor(
  snapshot: CampaignSnapshot,
  nowMs: number,
): { code: ProblemCode; extras?: ProblemExtras } | undefined {
  if (snapshot.state === 'VOIDED') return { code: 'VOIDED' }
  if (snapshot.state === 'ENDED' || nowMs >= snapshot.ends_at_ms) return { code: 'ENDED' }
  const opensAtMs = snapshot.starts_at_ms - limits.tokenLeadMs
  if (nowMs >= opensAtMs) return undefined
  return {
    code: 'NOT_STARTED',
    extras: {
      detail: 'Fetch the claim token from token_opens_at on, by the server’s clock.',
      starts_at: instant(snapshot.starts_at_ms),
      server_time: instant(nowMs),
      token_opens_at: instant(opensAtMs),
    },
  }
}

/**
 * A token fetched ahead lives as long after the start as one fetched at it. It also outlives the end a little:
 * the arbiter says ENDED to whoever is late, but a claim accepted in the last second, whose answer was lost,
 * must find its acceptance when it comes again.
 */
export function windowOf(
  snapshot: CampaignSnapshot,
  nowMs: number,
): { notBeforeMs: number; expiresAtMs: number } {
  const { starts_at_ms: startsAtMs, ends_at_ms: endsAtMs } = snapshot
  const lifeEndsMs = Math.max(nowMs, startsAtMs) + limits.tokenLifetimeMs
  return { notBeforeMs: startsAtMs, expiresAtMs: Math.min(endsAtMs + bounds.tokenReplayMs, lifeEndsMs) }
}
