import assert from 'node:assert/strict'
import { createServer, type Server, type Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { inspect } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import { sealClaimToken } from '../../schema/tokens.ts'
import { until } from '../../stack/process.ts'
import { type Answer, type Campaign, World } from './world.ts'

/** The arbiter's store away, hanging, or answering nonsense: claims get 503 with a time, within their deadline. */

/** For all that is not the gate's waiting. */
const slackMs = 1_500
/** A machine that stalls may spoil one try of what has a bound; a gate that is too slow is so each time. */
const triesMax = 4

function tokenFor(world: World, campaign: Campaign, user: string): string {
  const token = {
    campaignId: campaign.id,
    bucket: 0,
    userId: user,
    deviceHash: 'ABCDEFGH',
    notBeforeMs: 0,
    expiresAtMs: Date.now() + 3_600_000,
    tokenId: user.padStart(9, 'a').slice(0, 9),
    terms: 'stream' as const,
  }
  return sealClaimToken(token, world.ring('claimTokenKeys'))
}

async function claimAtOnce(
  world: World,
  campaign: Campaign,
  count: number,
): Promise<{ answers: Answer[]; ms: number }> {
  const began = Date.now()
  const answers = await Promise.all(
    Array.from({ length: count }, (_, n) =>
      world.claim(campaign.id, { token: tokenFor(world, campaign, `user${n}`), key: `key-${n}` }),
    ),
  )
  return { answers, ms: Date.now() - began }
}

function assertAway(answers: Answer[], codes: string[]): void {
  for (const { status, body, headers, text } of answers) {
    assert.equal(status, 503, text)
    assert.ok(codes.includes(body.code!), body.code)
    assert.equal(headers.get('Retry-After'), '1')
    assert.ok(body.retry_after_ms! > 0)
    assert.doesNotMatch(text, /redis|upstash|127\.0\.0\.1|ECONN|evalsha|script/i)
  }
}

test('Redis away: every claim is OUTCOME_UNKNOWN or BUSY within its deadline; back again, the same key finds its answer', async () => {
  const world = await World.start()
  try {
    const campaign = await world.campaign()
    const token = tokenFor(world, campaign, 'ann')
    const first = await world.claim(campaign.id, { token, key: 'k' })
    assert.equal(first.status, 202)
    await world.redis.stop()
    const { answers, ms } = await claimAtOnce(world, campaign, 150)
    assertAway(answers, ['OUTCOME_UNKNOWN', 'BUSY'])
    assert.ok(ms < limits.claimDeadlineMs + 2 * slackMs, `${ms} ms`)
    await until(() => /arbiter_(unknown|refused)/.test(world.log()), 'nothing was logged', 20_000)
    await world.redis.restart()
    const replay = await until(
      async () => {
        const answer = await world.claim(campaign.id, { token, key: 'k' })
        return answer.status === 202 && answer
      },
      'the gate never found Redis again',
      30_000,
      100,
    )
    assert.equal(replay.text, first.text)
    await world.endLease(campaign)
  } finally {
    await world.stop()
  }
})

test('Redis restarted without its scripts (case-H6): claims go on without an error', async () => {
  const world = await World.start()
  try {
    const campaign = await world.campaign()
    assert.equal(
      (await world.claim(campaign.id, { token: tokenFor(world, campaign, 'ann'), key: 'k' })).status,
      202,
    )
    await world.client.script('FLUSH')
    assert.equal(
      (await world.claim(campaign.id, { token: tokenFor(world, campaign, 'bob'), key: 'k' })).status,
      202,
    )
    assert.equal((await inspect(world.runner, campaign.buckets[0]!, 'bob'))!.length, 1)
  } finally {
    await world.stop()
  }
})

/** Takes connections, and answers each request with `reply`, or never. */
class OddStore {
  reply: string | undefined
  readonly #sockets = new Set<Socket>()
  readonly #server: Server = createServer((socket) => {
    this.#sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => this.#sockets.delete(socket))
    socket.on('data', (data) => {
      if (this.reply === undefined || !data.toString('latin1').startsWith('POST')) return
      socket.write(this.reply)
    })
  })

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    const address = this.#server.address()
    return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

const store = new OddStore()
let odd: World
before(async () => {
  odd = await World.start({ bindings: { UPSTASH_REDIS_REST_URL: await store.start() } })
})
after(async () => {
  await odd.stop()
  await store.stop()
})

const json = (status: string, body: string) =>
  `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`

test('a store that answers nonsense: OUTCOME_UNKNOWN; one that refuses the command: BUSY', async () => {
  const campaign = await odd.campaign()
  const cases: [string, string][] = [
    [json('200 OK', '{"result":"nonsense"}'), 'OUTCOME_UNKNOWN'],
    [json('200 OK', '{"result":["a"]}'), 'OUTCOME_UNKNOWN'],
    [json('200 OK', '{"result":"1 5 9 1 1 2 200\\n?\\n"}'), 'OUTCOME_UNKNOWN'],
    [json('200 OK', 'not json'), 'OUTCOME_UNKNOWN'],
    [json('502 Bad Gateway', '{"error":"upstream"}'), 'OUTCOME_UNKNOWN'],
    [json('400 Bad Request', '{"error":"OOM command not allowed, evalsha redis"}'), 'BUSY'],
    [json('401 Unauthorized', '{"error":"WRONGPASS"}'), 'BUSY'],
  ]
  for (const [reply, code] of cases) {
    store.reply = reply
    const { answers } = await claimAtOnce(odd, campaign, 1)
    assertAway(answers, [code])
  }
})

/** Has the store answered again, so that what comes next is asked of it. */
async function closeCircuit(campaign: Campaign): Promise<void> {
  store.reply = json('200 OK', '{"result":"nonsense"}')
  const isAsked = async () => {
    const { answers } = await claimAtOnce(odd, campaign, 1)
    return answers[0]!.body.code === 'OUTCOME_UNKNOWN'
  }
  await until(isAsked, 'the circuit stays open', 20_000, 100)
}

test('a store that never answers: each claim hears by its own deadline, and a late one does not wait for the others', async () => {
  const campaign = await odd.campaign()
  const times: number[] = []
  do {
    await closeCircuit(campaign)
    store.reply = undefined
    const { answers, ms } = await claimAtOnce(odd, campaign, 200)
    assertAway(answers, ['OUTCOME_UNKNOWN', 'BUSY'])
    const unknown = answers.filter(({ body }) => body.code === 'OUTCOME_UNKNOWN').length
    assert.ok(unknown >= 2, 'those that were sent can’t be told to have failed')
    times.push(ms)
  } while (times.at(-1)! >= limits.claimDeadlineMs + slackMs && times.length < triesMax)
  assert.ok(times.at(-1)! < limits.claimDeadlineMs + slackMs, `${times} ms`)
})

test('other calls go on while the arbiter’s store hangs', async () => {
  const campaign = await odd.campaign()
  await closeCircuit(campaign)
  store.reply = undefined
  let over = false
  const hanging = claimAtOnce(odd, campaign, 50).then(() => {
    over = true
  })
  assert.equal((await odd.call(`/v1/campaigns/${campaign.id}`)).status, 200)
  assert.equal(over, false, 'the other call has waited for the claims')
  await hanging
})
