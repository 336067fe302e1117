import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { HttpClient } from '../../loadtest/traffic/client.ts'
import { holders } from '../../lua/holders.ts'
import { deposit } from '../../lua/transfer.ts'
import { type Answer, type Campaign, World } from './world.ts'

let world: World
before(async () => {
  world = await World.start()
})
after(() => world?.stop())

/** Commands that Redis ran, those inside scripts too, but for ours that look. */
async function commands(): Promise<number> {
  const info = await world.client.info('commandstats')
  let sum = 0
  for (const [, name, calls] of info.matchAll(/cmdstat_(\S+?):calls=(\d+)/g))
    if (!['info', 'config', 'client', 'ping', 'command', 'hello'].includes(name!.split('|')[0]!))
      sum += Number(calls)
  return sum
}

async function claimAs(campaign: Campaign, user: string): Promise<Answer & { again(): Promise<Answer> }> {
  const token = await world.token(campaign, user)
  const send = () => world.claim(campaign.id, { token, key: `key of ${user}`.replaceAll(' ', '-') })
  return { ...(await send()), again: send }
}

/** A campaign of one coupon that `winner` has, and whose marker stands. */
async function soldOut(): Promise<{ campaign: Campaign; winner: Awaited<ReturnType<typeof claimAs>> }> {
  const campaign = await world.campaign({ quota: 1 })
  const winner = await claimAs(campaign, 'winner')
  assert.equal(winner.status, 202)
  const late = await claimAs(campaign, 'late')
  assert.equal(late.body.code, 'SOLD_OUT')
  const until = Date.now() + 20_000
  for (;;) {
    const before = await commands()
    await late.again()
    if ((await commands()) === before) return { campaign, winner }
    assert.ok(Date.now() < until, 'the marker does not stand')
  }
}

test('requests against a sold-out campaign cost 0.05 Redis commands or less (CL6)', async () => {
  const { campaign } = await soldOut()
  const tokens = await Promise.all(Array.from({ length: 32 }, (_, i) => world.token(campaign, `user ${i}`)))
  const before = await commands()
  const codes = new Set<unknown>()
  // Looks come by time, so the claims have to come quickly, also on a busy machine.
  const client = new HttpClient(world.url, tokens.length)
  const path = `/v1/campaigns/${campaign.id}/claims`
  const claims = tokens.map((token, k) =>
    client.encode('POST', path, { 'Claim-Token': token, 'Idempotency-Key': `key-${k}` }),
  )
  const requests = 4_800
  for (let i = 0; i < requests; i += claims.length)
    for (const { body } of await Promise.all(claims.map((claim) => client.send(claim))))
      codes.add((JSON.parse(body) as Answer['body']).code)
  client.close()
  assert.deepEqual([...codes], ['SOLD_OUT'])
  const perRequest = ((await commands()) - before) / requests
  assert.ok(perRequest <= 0.05, `${perRequest} commands a request`)
})

test('while the marker stands a repetition has its acceptance, and a holder hears what the arbiter says (case-B1)', async () => {
  const { campaign, winner } = await soldOut()
  const again = await winner.again()
  assert.equal(again.status, 202)
  assert.equal(again.text, winner.text)
  assert.equal(again.headers.get('Idempotency-Replayed'), 'true')
  const other = await world.claim(campaign.id, { token: await world.token(campaign, 'winner'), key: 'other' })
  assert.equal(other.body.code, 'LIMIT_REACHED')
})

/**
 * Asks until the answer is the new one: no claim that is sent more than a second from now hears the old one. It counts
 * when a claim is sent, not when its answer is here: a machine that stalls between proves nothing.
 */
async function within1s(
  campaign: Campaign,
  token: string,
  old: string,
  isNew: (answer: Answer) => boolean,
): Promise<void> {
  const changedAt = Date.now()
  for (;;) {
    const sentAt = Date.now()
    const answer = await world.claim(campaign.id, { token, key: 'patient' })
    if (isNew(answer)) return
    assert.equal(answer.body.code, old)
    assert.ok(sentAt - changedAt < 1_000, `still ${old} after a second`)
  }
}

test('a refill reopens within a second while others keep asking (CL6)', async () => {
  const { campaign } = await soldOut()
  const token = await world.token(campaign, 'patient')
  const refill = await deposit(world.runner, campaign.buckets[0]!, 'refill-1', 1)
  assert.equal(refill.outcome, 'moved')
  await within1s(campaign, token, 'SOLD_OUT', (answer) => answer.status === 202)
})

test('a pause of a sold-out campaign is heard within a second', async () => {
  const { campaign } = await soldOut()
  const token = await world.token(campaign, 'patient')
  await world.reconfigure(campaign, { state: 'PAUSED' })
  await within1s(campaign, token, 'SOLD_OUT', (answer) => answer.body.code === 'PAUSED')
})

test('the users with acceptances come whole, whatever their ids, page by page', async () => {
  const campaign = await world.campaign({ quota: 2_000 })
  const [bucket] = campaign.buckets as [Campaign['buckets'][0]]
  const odd = ['100%', 'a\nb', '%0A', '%25', 'émoji 🎟', ' ', '"']
  const users = [...odd, ...Array.from({ length: 1_500 }, (_, i) => `user ${i}`)]
  await world.client.hset(
    `tg:{${bucket.campaignId}:0}:users`,
    ...users.flatMap((user) => [user, 'x'.repeat(44)]),
  )
  const found = new Set<string>()
  let pages = 0
  let cursor = '0'
  do {
    const page = await holders(world.runner, bucket, cursor, 200)
    assert.ok(page)
    assert.equal(page.remaining, 2_000)
    for (const user of page.userIds) found.add(user)
    cursor = page.cursor
    pages++
  } while (cursor !== '0')
  assert.ok(pages > 3)
  assert.deepEqual([...found].sort(), users.sort())
})
