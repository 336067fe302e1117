import { createHmac, randomUUID } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Ground } from '../claim/testing.ts'
import type { CommandContext } from '../command.ts'
import type { Deps } from '../deps.ts'
import { publishOnce } from '../notify/publisher.ts'
import { createEndpoint } from './create.ts'
import { readSecret } from './read.ts'

/** What a shop has, for tests: a real HTTP server that keeps what it was sent. */
export interface Shop {
  url: string
  got: Received[]
  /** Set by the test. */
  answer(received: Received, response: ServerResponse): void
  stop(): Promise<void>
}

export interface Received {
  path: string
  headers: IncomingHttpHeaders
  body: Buffer
}

export async function openShop(): Promise<Shop> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const received = { path: request.url!, headers: request.headers, body: Buffer.concat(chunks) }
      shop.got.push(received)
      shop.answer(received, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const shop: Shop = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    got: [],
    answer: (_, response) => response.writeHead(204).end(),
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return shop
}

/** What the Standard Webhooks specification tells a receiver to do, written anew. */
export function isSigned({ headers, body }: Received, secret: string): boolean {
  const content = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
  const expected = createHmac('sha256', key).update(content).digest('base64')
  return String(headers['webhook-signature'])
    .split(' ')
    .some((one) => one === `v1,${expected}`)
}

/** The ground's dependencies by a clock that the test moves, and with deliveries to 127.0.0.1 allowed. */
export function movable({ deps }: Ground): { deps: Deps; forward(ms: number): void } {
  let skew = 0
  return {
    deps: { ...deps, env: { ...deps.env, outboundInsecure: true }, clock: () => Date.now() + skew },
    forward: (ms) => {
      skew += ms
    },
  }
}

export const operator = (deps: Deps): CommandContext => ({
  deps,
  caller: { actor: 'olga', role: 'operator' },
  idempotencyKey: randomUUID(),
})

/** An endpoint made as by an operator. */
export async function makeEndpoint(
  deps: Deps,
  url: string,
  types: string[] = [],
): Promise<{ id: string; secret: string }> {
  const input = { url, description: '', event_types: types }
  const { answer } = await createEndpoint(operator(deps), input)
  return { id: answer.id, secret: (await readSecret(deps.db.admin.orm, answer.id, 1))! }
}

/** So many events happen, and are told. */
export async function happen(deps: Deps, count: number): Promise<void> {
  await deps.db.admin.sql`
    INSERT INTO outbox (user_id, type, payload, created_at)
    SELECT 'user-' || n, 'coupon.used', jsonb_build_object('n', n), now() FROM generate_series(1, ${count}::int) AS n`
  while ((await publishOnce(deps)) > 0);
}

export async function statesOf({ db }: Deps): Promise<string[]> {
  const rows = await db.admin.sql<{ state: string }[]>`SELECT state FROM webhook_deliveries ORDER BY event_id`
  return rows.map(({ state }) => state)
}
