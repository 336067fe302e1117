import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Keyring } from '../../schema/sealed.ts'
import { openAssertion } from '../../schema/tokens.ts'
import type { CampaignSnapshot } from '../../schema/view.ts'

/** A call that the core got, after its assertion was checked. */
export interface CoreCall {
  path: string
  userId: string
  lastEventId: string | undefined
}

/**
 * What the gate needs of the core, for tests that set its answers and faults: the internal campaign endpoint and
 * the personal reads. The real core passes its own tests; this one checks assertions by the same code.
 */
export class CoreDouble {
  readonly campaigns = new Map<string, CampaignSnapshot>()
  readonly calls: CoreCall[] = []
  /** All requests, also those that a fault took. */
  requests = 0
  /** Answers a personal read; set by the test. */
  answer: (call: CoreCall, response: ServerResponse, request: IncomingMessage) => void = (_, response) => {
    response.writeHead(404).end()
  }
  /** `hang` takes requests and never answers; `fail` answers 500 with something internal in it. */
  fault: 'none' | 'hang' | 'fail' = 'none'
  readonly #server: Server
  readonly #keys: Keyring
  #port = 0

  constructor(keys: Keyring) {
    this.#keys = keys
    this.#server = createServer((request, response) => this.#handle(request, response))
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Listens; after `stop`, on the same port again. */
  async start(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#port = (this.#server.address() as AddressInfo).port
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    this.requests++
    if (this.fault === 'hang') return
    if (this.fault === 'fail') {
      response.writeHead(500, { 'Content-Type': 'text/html' }).end('SELECT secret FROM stack_trace')
      return
    }
    const assertion = request.headers['tidegate-assertion']
    const userId = openAssertion(String(assertion), Date.now(), this.#keys)
    if (userId === undefined) {
      response
        .writeHead(401, { 'Content-Type': 'application/problem+json' })
        .end('{"code":"UNAUTHENTICATED"}')
      return
    }
    const path = request.url ?? ''
    const lastEventId = request.headers['last-event-id']
    const call = { path, userId, lastEventId: lastEventId === undefined ? undefined : String(lastEventId) }
    this.calls.push(call)
    const campaignId = /^\/internal\/v1\/campaigns\/(\w+)$/.exec(path)?.[1]
    if (campaignId === undefined) {
      this.answer(call, response, request)
      return
    }
    const snapshot = userId === '' ? this.campaigns.get(campaignId) : undefined
    response.writeHead(snapshot ? 200 : 404, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(snapshot ?? {}))
  }
}
