import { createServer, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { scripts } from '../../lua/scripts.generated.ts'

/** One arbitration call on its way to Redis. */
export interface StoreCall {
  /** Key of the bucket's gate. */
  readonly gate: string
  /** Users of its claims, in their order. */
  readonly users: readonly string[]
  /** Sends it on to Redis, and answers with what Redis says. A call goes on once, however often it is let go. */
  pass(): void
  /** Sends it on, and cuts the connection when Redis has answered. */
  loseAnswer(): void
}

/** Stands before the Redis gateway, and holds arbitration calls until the test lets each go; the rest passes. */
export class HeldStore {
  /** Gates whose calls are held; of all others they pass. */
  readonly held = new Set<string>()
  /** All calls, in order of arrival. */
  readonly calls: StoreCall[] = []
  /** The most calls that were open for one gate at a time. */
  mostOpen = 0
  readonly #open = new Map<string, number>()
  readonly #server: Server
  #target = ''

  constructor() {
    this.#server = createServer(async (incoming, response) => {
      const parts: Buffer[] = []
      for await (const part of incoming) parts.push(part as Buffer)
      const body = Buffer.concat(parts)
      this.#take(body, incoming.headers as Record<string, string>, response)
    })
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Where calls go on to. */
  lead(target: string): void {
    this.#target = target
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #take(body: Buffer, headers: Record<string, string>, response: ServerResponse): void {
    const [, script, , gate = '', , , , ...rest] = JSON.parse(body.toString()) as string[]
    if (script !== scripts.claim.keyLockingSha1) {
      this.#forward(body, headers, response, false)
      return
    }
    const open = (this.#open.get(gate) ?? 0) + 1
    this.#open.set(gate, open)
    this.mostOpen = Math.max(this.mostOpen, open)
    let gone = false
    // Before the answer is: with it the gate may start the next call.
    const ends = (lost: boolean) => () => {
      if (gone) return
      gone = true
      this.#forward(body, headers, response, lost, () => this.#open.set(gate, this.#open.get(gate)! - 1))
    }
    const call = { gate, users: rest.slice(0, rest.length / 2), pass: ends(false), loseAnswer: ends(true) }
    this.calls.push(call)
    if (!this.held.has(gate)) call.pass()
  }

  #forward(
    body: Buffer,
    headers: Record<string, string>,
    response: ServerResponse,
    lost: boolean,
    done?: () => void,
  ): void {
    const sent = request(this.#target, { method: 'POST', headers }, async (answer) => {
      const parts: Buffer[] = []
      for await (const part of answer) parts.push(part as Buffer)
      done?.()
      if (lost) response.socket?.destroy()
      else
        response
          .writeHead(answer.statusCode!, { 'Content-Type': 'application/json' })
          .end(Buffer.concat(parts))
    })
    sent.on('error', () => response.socket?.destroy())
    sent.end(body)
  }
}
