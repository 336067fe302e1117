import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { afterEach, describe, it } from 'node:test'
import { until } from '../../stack/process.ts'
import { HttpClient } from '../traffic/client.ts'
import { Crowd } from './crowd.ts'
import { Watchers } from './follow.ts'
import type { Act, Kind, Plan } from './population.ts'
import { Tally } from './tally.ts'

/** The crowd against a gate that says what a test has it say: whether it hears everything, and believes nothing. */

type Gate = (request: IncomingMessage, response: ServerResponse) => void

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

const accepted = (id: string) =>
  JSON.stringify({
    request_id: id,
    status: 'ACCEPTED',
    accepted_at: new Date().toISOString(),
    status_url: `/v1/claims/${id}`,
    events_url: `/v1/claims/${id}/events`,
    poll_after_ms: 5,
    receipt: 'r',
  })
const say = (response: ServerResponse, status: number, body: string | object, headers = {}) =>
  response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body))

async function crowdAt(
  gate: Gate,
  presses: { atMs: number; act: Act }[],
  kind: Kind = 'once',
  connections = 4,
) {
  const server = createServer(gate)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  const client = new HttpClient(url, connections)
  const tally = new Tally()
  const watchers = new Watchers(client, url, tally)
  ends.push(async () => {
    await watchers.end()
    client.close()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const person = { kind, campaign: 0, region: 'sea', address: '175.1.2.3' }
  const alone = kind === 'repeater' || kind === 'double_tapper'
  const plan: Plan = {
    people: alone ? [person] : presses.map(() => person),
    presses: presses.map(({ atMs, act }, i) => ({ atMs, act, person: alone ? 0 : i })),
  }
  const crowd = new Crowd(plan, {
    ...{ client, watchers, tally, campaigns: [{ id: 'c', bucketCount: 1 }], gateToken: 'secret' },
    tokens: ({ kind: of }) => `token-${of}`,
    mintLogin: async (user) => `login-of-${user}`,
  })
  await crowd.prepare()
  return { crowd, tally, watchers }
}

describe('the crowd', () => {
  it('counts a stalled gate into the latency of everybody who was due meanwhile', async () => {
    const stallMs = 300
    let stalledUntil = Number.POSITIVE_INFINITY
    const presses = Array.from({ length: 30 }, (_, i) => ({ atMs: i * 10, act: 'claim' as const }))
    // Two connections: a generator that waits for answers would have sent two requests by then.
    const { crowd, tally } = await crowdAt(
      (_, response) => {
        const wait = Math.max(0, stalledUntil - performance.now())
        setTimeout(() => say(response, 409, { code: 'SOLD_OUT' }), wait)
      },
      presses,
      'once',
      2,
    )
    const began = performance.now()
    stalledUntil = began + stallMs
    await crowd.come(began)
    assert.deepEqual(tally.codes, { SOLD_OUT: 30 })
    const { p50_ms: middle } = tally.records().find(({ name }) => name === 'refuse')!
    // They were due evenly over 300 ms: half of them waited for more than half of the stall.
    assert.ok(middle >= stallMs / 2 - 10, `${middle} ms`)
  })

  it('comes again with the same key after BUSY, until it is accepted', async () => {
    const keys: string[] = []
    const { crowd, tally } = await crowdAt(
      (request, response) => {
        keys.push(request.headers['idempotency-key'] as string)
        if (keys.length < 3) say(response, 503, { code: 'BUSY', retry_after_ms: 1 })
        else say(response, 202, accepted('r1'))
      },
      [{ atMs: 0, act: 'claim' }],
    )
    await crowd.come(performance.now())
    assert.deepEqual(tally.codes, { BUSY: 2, ACCEPTED: 1 })
    assert.equal(new Set(keys).size, 1)
    assert.equal(crowd.accepted[0]!.requestId, 'r1')
  })

  it('finds a repetition that is answered otherwise than the first time', async () => {
    for (const [second, mismatches] of [
      ['r1', 0],
      ['r2', 1],
    ] as const) {
      let count = 0
      const first = accepted('r1')
      const other = second === 'r1' ? first : accepted(second)
      const { crowd } = await crowdAt(
        (_, response) =>
          count++ === 0
            ? say(response, 202, first)
            : say(response, 202, other, { 'Idempotency-Replayed': 'true' }),
        [
          { atMs: 0, act: 'claim' },
          { atMs: 60, act: 'again' },
        ],
        'repeater',
      )
      await crowd.come(performance.now())
      assert.equal(crowd.mismatches, mismatches)
    }
  })

  it('notes a bot that is served, and an answer that nobody should get', async () => {
    const bot = await crowdAt(
      (_, response) => say(response, 202, accepted('r1')),
      [{ atMs: 0, act: 'forged' }],
      'bot',
    )
    await bot.crowd.come(performance.now())
    assert.equal(bot.crowd.fooled, 1)
    const token = await crowdAt(
      (_, response) => say(response, 201, { claim_token: 't' }),
      [{ atMs: 0, act: 'no_login' }],
      'bot',
    )
    await token.crowd.come(performance.now())
    assert.equal(token.crowd.fooled, 1)
    const broken = await crowdAt(
      (_, response) => say(response, 500, 'Internal Server Error'),
      [{ atMs: 0, act: 'claim' }],
    )
    await broken.crowd.come(performance.now())
    assert.deepEqual([...broken.tally.wrong], ['500 Internal Server Error'])
  })

  it('asks for an unknown outcome by the same key, and tells whether somebody never learnt it', async () => {
    let known = false
    const { crowd } = await crowdAt(
      (_, response) =>
        known ? say(response, 202, accepted('r1')) : say(response, 503, { code: 'OUTCOME_UNKNOWN' }),
      [{ atMs: 0, act: 'again' }],
    )
    await crowd.come(performance.now())
    assert.equal(crowd.unknowns, 1)
    assert.equal(crowd.accepted.length, 0)
    known = true
    assert.equal(await crowd.resolve(), 0)
    assert.equal(crowd.accepted.length, 1)
  })

  it('counts a broken connection as no answer, and the claim as open', async () => {
    const { crowd, tally } = await crowdAt((request) => request.socket.destroy(), [{ atMs: 0, act: 'again' }])
    await crowd.come(performance.now())
    assert.deepEqual(tally.codes, { 'no answer': 1 })
    assert.deepEqual([tally.offered, tally.answered], [1, 0])
    assert.equal(crowd.visitors[0]!.unknown, true)
  })

  it('fetches a token late with its login, and only then claims', async () => {
    const seen: (string | undefined)[] = []
    const { crowd } = await crowdAt(
      (request, response) => {
        const isToken = request.url!.endsWith('/claim-tokens')
        seen.push(isToken ? request.headers.authorization : (request.headers['claim-token'] as string))
        if (isToken) say(response, 201, { claim_token: 'fetched' })
        else say(response, 202, accepted('r1'))
      },
      [{ atMs: 0, act: 'fetch' }],
      'late',
    )
    await crowd.come(performance.now())
    assert.match(seen[0]!, /^Bearer login-of-visitor-/)
    assert.equal(seen[1], 'fetched')
  })

  it('has pollers and listeners wait for their final result', async () => {
    let polls = 0
    const gate: Gate = (request, response) => {
      if (request.method === 'POST') return say(response, 202, accepted('r1'))
      if (request.url!.endsWith('/events'))
        return say(response, 200, 'retry: 500\n\nid: 1-1\nevent: claim.delivered\ndata: {}\n\n')
      return say(response, 200, { status: ++polls < 3 ? 'PROCESSING' : 'DELIVERED', poll_after_ms: 5 })
    }
    for (const kind of ['poller', 'listener'] as const) {
      const { crowd, tally, watchers } = await crowdAt(gate, [{ atMs: 0, act: 'claim' }], kind)
      await crowd.come(performance.now())
      await until(() => watchers.waiting === 0, `no result for the ${kind}`, 30_000, 5)
      assert.deepEqual([watchers.told, watchers.waiting], [1, 0], kind)
      assert.equal(tally.records().find(({ name }) => name.startsWith('told by'))!.count, 1)
    }
    assert.equal(polls, 3)
  })
})
