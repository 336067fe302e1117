import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** One response of a widget: what it was solved for, and whether it was spent. */
interface Solved {
  hostname: string
  action: string
  solvedAtMs: number
  spent: boolean
}

const lifetimeMs = 300_000

/**
 * siteverify as Cloudflare documents it: form or JSON, its error codes, a response that is good once and for five
 * minutes. It stands in because the real one can't be reached from a test.
 */
export class TurnstileDouble {
  readonly secret = 'turnstile-secret'
  /** What it was asked, in order. */
  readonly asked: Record<string, string>[] = []
  /** `hang` takes requests and never answers; `fail` is a proxy's 502; `internal` the verifier's own error. */
  fault: 'none' | 'hang' | 'fail' | 'internal' = 'none'
  readonly #solved = new Map<string, Solved>()
  readonly #server: Server
  #count = 0

  constructor() {
    this.#server = createServer(async (request, response) => {
      if (this.fault === 'hang') return
      if (this.fault === 'fail') {
        response.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>Bad gateway</h1>')
        return
      }
      const answer = this.#verify(await fieldsOf(request))
      response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer))
    })
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/turnstile/v0/siteverify`
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** What the widget gives a visitor who passed. */
  solve(more: Partial<Omit<Solved, 'spent'>> = {}): string {
    const response = `0.solved-${this.#count++}`
    const defaults = { hostname: 'shop.example', action: 'claim-token', solvedAtMs: Date.now() }
    this.#solved.set(response, { ...defaults, ...more, spent: false })
    return response
  }

  #verify(fields: Record<string, string>): object {
    this.asked.push(fields)
    const refused = (code: string) => ({ success: false, 'error-codes': [code], messages: [] })
    if (this.fault === 'internal') return refused('internal-error')
    if (!fields['secret']) return refused('missing-input-secret')
    if (fields['secret'] !== this.secret) return refused('invalid-input-secret')
    if (!fields['response']) return refused('missing-input-response')
    const solved = this.#solved.get(fields['response'])
    if (solved === undefined) return refused('invalid-input-response')
    const { hostname, action, solvedAtMs, spent } = solved
    if (spent || Date.now() - solvedAtMs > lifetimeMs) return refused('timeout-or-duplicate')
    solved.spent = true
    const challengeAt = new Date(solvedAtMs).toISOString()
    return { success: true, 'error-codes': [], challenge_ts: challengeAt, hostname, action, cdata: '' }
  }
}

async function fieldsOf(request: IncomingMessage): Promise<Record<string, string>> {
  let text = ''
  for await (const part of request) text += part
  if (/json/.test(request.headers['content-type'] ?? '')) return JSON.parse(text)
  return Object.fromEntries(new URLSearchParams(text))
}
