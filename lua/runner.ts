import { keyLockingLine, type Script } from './scripts.generated.ts'

/** Runs a script on one Redis and gives its reply, always a text. Shared by the edge (REST) and the core (TCP). */
export interface ScriptRunner {
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<string>
}

/**
 * `refused`: Redis answered with an error, so nothing was changed. `unknown`: no answer in time or a broken
 * connection, so the script may have run. `garbled`: an answer that no script of ours gives.
 */
export type ArbiterFailure = 'refused' | 'unknown' | 'garbled'

export class ArbiterError extends Error {
  readonly failure: ArbiterFailure
  constructor(failure: ArbiterFailure, message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'ArbiterError'
    this.failure = failure
  }
}

/** What we need of a TCP client; ioredis (single or cluster) fits. */
export interface EvalClient {
  evalsha(sha1: string, keyCount: number, ...keysAndArgs: string[]): Promise<unknown>
  eval(source: string, keyCount: number, ...keysAndArgs: string[]): Promise<unknown>
}

/** EVALSHA first, EVAL once on NOSCRIPT: that error means that nothing ran, so it may be sent again (case-H6). */
export function tcpRunner(client: EvalClient): ScriptRunner {
  return {
    async run(script, keys, args) {
      checkKeys(script, keys)
      try {
        try {
          return asText(await client.evalsha(script.sha1, keys.length, ...keys, ...args), script)
        } catch (error) {
          if (!isNoScript(error)) throw error
          return asText(await client.eval(script.source, keys.length, ...keys, ...args), script)
        }
      } catch (error) {
        if (error instanceof ArbiterError) throw error
        const refused = (error as Error)?.name === 'ReplyError'
        throw new ArbiterError(
          refused ? 'refused' : 'unknown',
          `${script.name}: ${(error as Error).message}`,
          error,
        )
      }
    },
  }
}

export interface RestTarget {
  /** UPSTASH_REDIS_REST_URL, without a trailing slash. */
  readonly url: string
  readonly token: string
  readonly timeoutMs: number
  readonly fetch: typeof fetch
}

/**
 * Over Upstash's REST. Our replies are plain ASCII, so no base64 is asked for; keys lock by script, not the
 * whole database. Not the SDK: it would encode, retry and decode what this path never needs.
 */
export function restRunner(target: RestTarget): ScriptRunner {
  const headers = { Authorization: `Bearer ${target.token}`, 'Content-Type': 'application/json' }

  async function send(script: Script, command: readonly string[]): Promise<string | 'NOSCRIPT'> {
    let status: number
    let body: { result?: unknown; error?: string }
    try {
      const response = await target.fetch(target.url, {
        method: 'POST',
        headers,
        body: JSON.stringify(command),
        signal: AbortSignal.timeout(target.timeoutMs),
      })
      status = response.status
      body = (await response.json()) as typeof body
    } catch (error) {
      throw new ArbiterError('unknown', `${script.name}: no answer from Redis`, error)
    }
    if (typeof body.error === 'string') {
      if (body.error.startsWith('NOSCRIPT')) return 'NOSCRIPT'
      // A 5xx comes from in front of the database: whether the script ran can't be told.
      throw new ArbiterError(
        status >= 500 ? 'unknown' : 'refused',
        `${script.name}: ${body.error.slice(0, 200)}`,
      )
    }
    if (status >= 400)
      throw new ArbiterError(status >= 500 ? 'unknown' : 'refused', `${script.name}: HTTP ${status}`)
    return asText(body.result, script)
  }

  return {
    async run(script, keys, args) {
      checkKeys(script, keys)
      const tail = [String(keys.length), ...keys, ...args]
      const reply = await send(script, ['EVALSHA', script.keyLockingSha1, ...tail])
      if (reply !== 'NOSCRIPT') return reply
      const again = await send(script, ['EVAL', keyLockingLine + script.source, ...tail])
      if (again === 'NOSCRIPT')
        throw new ArbiterError('refused', `${script.name}: the script can't be loaded`)
      return again
    },
  }
}

function checkKeys(script: Script, keys: readonly string[]): void {
  if (keys.length !== script.keyCount) throw new Error(`${script.name} takes ${script.keyCount} keys`)
}

function asText(reply: unknown, script: Script): string {
  if (typeof reply !== 'string') throw new ArbiterError('garbled', `${script.name}: the reply is not a text`)
  return reply
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}
