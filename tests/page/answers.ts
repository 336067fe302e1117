import type { ServerResponse } from 'node:http'

export interface Answer {
  status: number
  body?: unknown
  headers?: Record<string, string>
}

/**
 * `lose`: the request was received, and the answer breaks off on its way; `accept and lose`: it was accepted besides.
 * (Broken off after its head, since a browser repeats a request by itself when nothing at all came back.)
 */
export type Reply = Answer | 'lose' | 'accept and lose'

/** A reply in its turn: as it is, or made when its turn comes; one that is held keeps the page in its present state. */
export type Scripted = Reply | (() => Reply | Promise<Reply>)

export async function replyOf(scripted: Scripted | undefined): Promise<Reply | undefined> {
  return typeof scripted === 'function' ? scripted() : scripted
}

/** A reply that is held until it is let go. */
export function held(given: Reply): { scripted: Scripted; letGo(): void } {
  const { promise, resolve } = Promise.withResolvers<Reply>()
  return { scripted: () => promise, letGo: () => resolve(given) }
}

export function problem(status: number, code: string, extras: Record<string, unknown> = {}): Answer {
  return {
    status,
    body: {
      type: `urn:tidegate:problem:${code}`,
      title: code,
      status,
      detail: '',
      code,
      request_id: 'r',
      ...extras,
    },
    headers: { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store' },
  }
}

export function reply(response: ServerResponse, given: Reply): void {
  if (typeof given === 'object') {
    send(response, given)
    return
  }
  response.writeHead(202, { 'Content-Type': 'application/json', 'Content-Length': '500' })
  response.write('{"request_id":')
  setImmediate(() => response.destroy())
}

export function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers })
  response.end(body === undefined ? undefined : JSON.stringify(body))
}
