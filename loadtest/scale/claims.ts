import type { HttpClient, Reply } from '../traffic/client.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import { encodeClaim, type Shopper } from '../traffic/shoppers.ts'

/** A claim of one shopper on one campaign, for one worker runtime. */
export interface Claim {
  readonly campaignId: string
  readonly shopper: Shopper
  readonly client: HttpClient
}

export interface Outcome {
  readonly claim: Claim
  readonly requestId: string
}

export interface Claimed {
  readonly accepted: Outcome[]
  /** Answers that asked to come again, by code. */
  readonly again: Record<string, number>
  /** Answers that ended a claim otherwise than by acceptance, and breaks of connections, by code. */
  readonly failed: Record<string, number>
  readonly seconds: number
}

/** A claim that is told to come again does so for this long. */
const patienceMs = 20_000

/** Sends all claims, so many at a time and never one before there is room: the most that the system takes. */
export async function claimAll(
  claims: readonly Claim[],
  atOnce: number,
  progress: (accepted: number) => void,
): Promise<Claimed> {
  const accepted: Outcome[] = []
  const again: Record<string, number> = {}
  const failed: Record<string, number> = {}
  const count = (codes: Record<string, number>, code: string) => {
    codes[code] = (codes[code] ?? 0) + 1
  }
  const began = performance.now()
  await closedLoop(claims.length, atOnce, async (i) => {
    const claim = claims[i]!
    const request = encodeClaim(claim.client, claim.campaignId, claim.shopper)
    const end = performance.now() + patienceMs
    for (;;) {
      const { status, code, requestId, retryMs } = await ask(claim.client, request)
      if (status === 202) {
        accepted.push({ claim, requestId: requestId! })
        return progress(accepted.length)
      }
      if (status !== 503 || performance.now() > end) return count(failed, code)
      count(again, code)
      await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
  })
  return { accepted, again, failed, seconds: (performance.now() - began) / 1_000 }
}

async function ask(client: HttpClient, request: Buffer) {
  let reply: Reply
  try {
    reply = await client.send(request)
  } catch {
    // The same key again is safe, whatever became of this one.
    return { status: 503, code: 'no answer', requestId: undefined, retryMs: 50 }
  }
  const body = JSON.parse(reply.body) as { request_id?: string; code?: string; retry_after_ms?: number }
  const { request_id: requestId, code = String(reply.status), retry_after_ms: retryMs = 100 } = body
  return { status: reply.status, code, requestId, retryMs: Math.min(retryMs, 500) }
}
