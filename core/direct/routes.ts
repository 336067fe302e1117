import { z } from 'zod'
import { limits } from '../../schema/limits.ts'
import { unsealClaimToken } from '../../schema/tokens.ts'
import { openRuleBook } from '../claim/rules.ts'
import type { Deps } from '../deps.ts'
import type { CoreApp } from '../http/types.ts'
import { Refused } from '../refusal.ts'
import { claimDirectly } from './claim.ts'

const bodyShape = z
  .object({
    claim_token: z.string().max(limits.claimTokenCharsMax),
    idempotency_key: z.string().min(limits.idempotencyKeyCharsMin).max(limits.idempotencyKeyCharsMax),
  })
  .strict()

/**
 * `POST /internal/v1/claims`, for the edge only: a claim on a direct campaign. The token is opened here again: an edge
 * that vouches for a user is not enough for a coupon.
 * @param onIssued told after each: its event is in the outbox.
 */
export function registerDirectRoutes(app: CoreApp, deps: Deps, onIssued: () => void): void {
  const ruleBook = openRuleBook(deps.db.direct)
  app.post('/internal/v1/claims', async (c) => {
    const userId = deps.identity.vouched(c)
    const body = bodyShape.safeParse(await c.req.json().catch(() => undefined))
    if (!body.success) throw new Refused('INVALID_REQUEST')
    const token = unsealClaimToken(body.data.claim_token, deps.keyrings.claimToken)
    if (token === undefined || token.userId !== userId || token.terms !== 'direct')
      throw new Refused('TOKEN_INVALID')
    if (deps.clock() >= token.expiresAtMs + limits.clockLeewayMs) throw new Refused('TOKEN_EXPIRED')
    const issued = await claimDirectly(deps, ruleBook, token, body.data.idempotency_key)
    if (!issued.replayed) onIssued()
    return c.json(issued, 200, { 'Cache-Control': 'no-store' })
  })
}
