import { equalConstantTime } from '../schema/sealed.ts'
import { type ClaimParts, claim } from './claim.ts'
import type { Lifetime } from './lifetime.ts'
import type { Arbiter } from './soldOut.ts'

/** Whether the caller shows METRICS_TOKEN, and so may see what an answer's time went to. */
export function showsToken(request: Request, token: string): boolean {
  const shown = request.headers.get('Gate-Token')
  return shown !== null && equalConstantTime(shown, token)
}

/**
 * A claim whose answer says in `Server-Timing`, in ms, how long it took in all, and how much of that was waiting for
 * its arbitration call and for that call's answer. The runtime's clock moves only while a request waits for something,
 * so this is waiting, not work.
 */
export async function timedClaim(
  parts: ClaimParts,
  request: Request,
  lifetime: Lifetime,
  campaignId: string,
): Promise<Response> {
  const { clock, arbiter, ballots } = parts
  const beganMs = clock()
  const spans: string[] = []
  const watched = (decide: Arbiter['decide']): Arbiter['decide'] => {
    return async (...args) => {
      const askedMs = clock()
      const outcome = await decide(...args)
      spans.push(span('arbiter', clock() - askedMs))
      return outcome
    }
  }
  const response = await claim(
    {
      ...parts,
      arbiter: {
        refuses: (...args) => arbiter.refuses(...args),
        decide: watched((...args) => arbiter.decide(...args)),
      },
      ballots: { decide: watched((...args) => ballots.decide(...args)) },
    },
    request,
    lifetime,
    campaignId,
  )
  response.headers.set('Server-Timing', [span('total', clock() - beganMs), ...spans].join(', '))
  return response
}

const span = (name: string, ms: number) => `${name};dur=${ms}`
