import { Away } from '../away.ts'
import { bounds } from '../bounds.ts'

export interface TurnstileConfig {
  /** The siteverify address. */
  readonly url: string
  readonly secret: string
  /** Public: what the page needs to show the challenge. */
  readonly siteKey: string | undefined
  /** Where a challenge may have been solved; empty: anywhere that the widget allows. */
  readonly hostnames: readonly string[]
}

export interface Turnstile {
  readonly siteKey: string | undefined
  /**
   * Whether this response of the widget is genuine, fresh and used for the first time. The verifier keeps the count:
   * a response that it has seen is refused.
   * @throws Away when the verifier can't be asked, or does not know us.
   */
  verify(response: string, address: string | null): Promise<boolean>
}

/** What the page must have its widget sign: a response for something else buys no claim token. */
export const turnstileAction = 'claim-token'
const responseCharsMax = 2_048

export function makeTurnstile(config: TurnstileConfig): Turnstile {
  return {
    siteKey: config.siteKey,
    async verify(response, address) {
      if (response === '' || response.length > responseCharsMax) return false
      const verdict = await ask(config, response, address)
      if (verdict.success !== true) {
        // Our own fault, not the client's: no challenge that it could solve would help.
        const ours = verdict['error-codes'].find((code) => /secret|bad-request|internal/.test(code))
        if (ours !== undefined) throw new Away(`turnstile: ${ours}`)
        return false
      }
      const rightPlace = config.hostnames.length === 0 || config.hostnames.includes(verdict.hostname)
      return rightPlace && verdict.action === turnstileAction
    },
  }
}

/** Turnstile is asked for, and this deployment has no secret: nothing can be proven, so nothing passes. */
export const noTurnstile: Turnstile = {
  siteKey: undefined,
  async verify() {
    throw new Away('turnstile: TURNSTILE_SECRET is missing')
  },
}

interface Verdict {
  success: boolean
  'error-codes': string[]
  hostname: string
  action: string
}

async function ask(config: TurnstileConfig, response: string, address: string | null): Promise<Verdict> {
  const form = new URLSearchParams({ secret: config.secret, response })
  if (address !== null) form.set('remoteip', address)
  let body: unknown
  try {
    const answer = await fetch(config.url, {
      method: 'POST',
      body: form,
      signal: AbortSignal.timeout(bounds.turnstileTimeoutMs),
      redirect: 'manual',
    })
    // A refusal has its codes in the body whatever its status.
    body = await answer.json()
  } catch (error) {
    throw new Away('turnstile: no answer', error)
  }
  const { success, 'error-codes': codes, hostname, action } = (body ?? {}) as Record<string, unknown>
  if (typeof success !== 'boolean') throw new Away('turnstile: unexpected answer')
  return {
    success,
    'error-codes': Array.isArray(codes) ? codes.map(String) : [],
    hostname: typeof hostname === 'string' ? hostname : '',
    action: typeof action === 'string' ? action : '',
  }
}
