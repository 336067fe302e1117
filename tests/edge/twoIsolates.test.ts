import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { bounds } from '../../edge/bounds.ts'
import { deposit } from '../../lua/transfer.ts'
import { limits } from '../../schema/limits.ts'
import { type Campaign, World } from './world.ts'

/**
 * Two isolates of one location: two workers of the same code in one workerd, which share no memory, and whose
 * `caches.default` is one. A third gate, in a workerd of its own, is another location: what it can't know shows that
 * the others know it from each other.
 */

const token = 'a-token-of-sixteen-or-more'
const secondMs = 1_000
/** Of a round that says nothing on a machine that is busy just then. */
const triesMax = 8

let world: World
let elsewhere: string
before(async () => {
  world = await World.start({ bindings: { METRICS_TOKEN: token }, isolates: 2 })
  elsewhere = await world.anotherLocation()
})
after(() => world?.stop())

interface Heard {
  status: number
  code: unknown
  /** When the claim went out: what comes of it counts from then, since a machine may stall before the answer is here. */
  sentAtMs: number
}

const claimTokens = new Map<string, string>()

/** A claim of this user at one isolate, under a key of its own. */
async function claimAt(url: string, campaign: Campaign, user: string, key = user): Promise<Heard> {
  const name = `${campaign.id}/${user}`
  const claimToken = claimTokens.get(name) ?? (await world.token(campaign, user))
  claimTokens.set(name, claimToken)
  const sentAtMs = Date.now()
  const response = await fetch(`${url}/v1/campaigns/${campaign.id}/claims`, {
    method: 'POST',
    headers: { 'Claim-Token': claimToken, 'Idempotency-Key': key },
  })
  const body = (await response.json()) as { code?: string }
  return { status: response.status, code: body.code ?? response.status, sentAtMs }
}

interface Counts {
  isolate: string
  /** Arbitration calls so far: each is the one script call that a claim can cost. */
  calls: number
}

async function countsOf(url: string): Promise<Counts> {
  const response = await fetch(`${url}/_gate/metrics`, { headers: { Authorization: `Bearer ${token}` } })
  const text = await response.text()
  return {
    isolate: /isolate_info\{isolate="([^"]+)"\} 1/.exec(text)![1]!,
    calls: Number(/arbitration_batch_claims_count\{kind="claim"\} (\d+)/.exec(text)![1]),
  }
}

/** Script calls that read a bucket's users: they run once an epoch and location. */
async function holderScans(): Promise<number> {
  const info = await world.client.info('commandstats')
  return Number(/cmdstat_hscan:calls=(\d+)/.exec(info)?.[1] ?? 0)
}

async function until(holds: () => Promise<boolean>, what: string, deadlineMs = 20_000): Promise<void> {
  const deadline = Date.now() + deadlineMs
  while (!(await holds())) assert.ok(Date.now() < deadline, `in vain: ${what}`)
}

/** Asks an isolate until it answers from memory. */
async function standsAt(url: string, campaign: Campaign, user: string): Promise<void> {
  await until(async () => {
    const before = await countsOf(url)
    assert.equal((await claimAt(url, campaign, user)).code, 'SOLD_OUT')
    return (await countsOf(url)).calls === before.calls
  }, 'the marker stands')
}

/** A campaign of one coupon, which is gone, and both isolates know it. */
async function soldOutInBoth(): Promise<Campaign> {
  const [a, b] = world.isolates as [string, string]
  const campaign = await world.campaign({ quota: 1 })
  assert.equal((await claimAt(a, campaign, 'winner')).status, 202)
  await standsAt(a, campaign, 'late')
  await standsAt(b, campaign, 'late')
  return campaign
}

/** Keeps one isolate asking, as a crowd does, until told to stop; begun when it has heard its first answer. */
async function crowdAt(url: string, campaign: Campaign): Promise<() => Promise<Heard[]>> {
  let over = false
  const heard: Heard[] = []
  const work = (async () => {
    while (!over) {
      heard.push(await claimAt(url, campaign, 'crowd'))
      await pause(15)
    }
  })()
  await until(() => pause(5).then(() => heard.length > 0), 'the crowd has come')
  return async () => {
    over = true
    await work
    return heard
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/**
 * Claims at an isolate, each when its own marker is no longer fresh, and just after its neighbour has looked.
 * @returns how many of them asked Redis nevertheless
 */
async function asksAfter(neighbour: string, url: string, campaign: Campaign, times: number): Promise<number> {
  let asked = 0
  const deadline = Date.now() + 45_000
  for (let counted = 0; counted < times; ) {
    assert.ok(Date.now() < deadline, 'this machine is too busy: no round was quick enough to mean anything')
    await pause(bounds.soldOutFreshMs + 50)
    const [{ calls }, before] = [await countsOf(neighbour), await countsOf(url)]
    let lookedAt = 0
    await until(async () => {
      lookedAt = Date.now()
      assert.equal((await claimAt(neighbour, campaign, 'crowd')).code, 'SOLD_OUT')
      return (await countsOf(neighbour)).calls > calls
    }, 'the neighbour looks')
    // It shares behind its answer, and the local cache writes to a disk that others use.
    await pause(120)
    const sentAt = Date.now()
    assert.equal((await claimAt(url, campaign, 'late')).code, 'SOLD_OUT')
    // On a busy machine the look may be too old by now, or the cache have been given up.
    const tooLate = Date.now() > lookedAt + bounds.soldOutFreshMs
    if (tooLate || Date.now() > sentAt + bounds.cacheTimeoutMs / 2) continue
    counted++
    asked += (await countsOf(url)).calls - before.calls
  }
  return asked
}

test('the two are isolates of their own', async () => {
  const [a, b] = world.isolates as [string, string]
  assert.notEqual(a, b)
  const [ofA, ofB] = [await countsOf(a), await countsOf(b)]
  assert.notEqual(ofA.isolate, ofB.isolate)
  assert.match(ofA.isolate, /^[\w-]{12}$/)
  assert.equal((await countsOf(a)).isolate, ofA.isolate, 'the same isolate has the same name')
  const campaign = await world.campaign()
  await claimAt(a, campaign, 'ann')
  assert.equal((await countsOf(a)).calls, ofA.calls + 1)
  assert.equal((await countsOf(b)).calls, ofB.calls, 'no memory is shared')
})

test('who has acceptances is read from Redis once for both', async () => {
  const [a, b] = world.isolates as [string, string]
  for (let tries = 1; ; tries++) {
    const campaign = await world.campaign({ quota: 1 })
    assert.equal((await claimAt(a, campaign, 'winner')).status, 202)
    const before = await holderScans()
    await standsAt(a, campaign, 'late')
    const afterA = await holderScans()
    assert.ok(afterA > before, 'the first isolate reads them')
    await standsAt(b, campaign, 'late')
    const again = await claimAt(b, campaign, 'winner')
    assert.equal(again.status, 202, 'the second lets the winner through to his acceptance')
    if ((await holderScans()) === afterA) break
    // On a busy machine a look into the cache is given up after a moment.
    assert.ok(tries < triesMax, 'the second has never had them from the first')
  }
})

test('what one isolate has seen of a sold-out bucket spares the other its look; where nothing is shared, each looks itself', async () => {
  const [a, b] = world.isolates as [string, string]
  const campaign = await soldOutInBoth()
  await standsAt(elsewhere, campaign, 'late')
  // Nearly always none; on a machine that is busy with other things the look may be shared too late.
  const asked: number[] = []
  while (asked.length < 3 && !asked.some((count) => count <= 4))
    asked.push(await asksAfter(a, b, campaign, 8))
  assert.ok(asked.at(-1)! <= 4, `${asked} of 8 claims asked although the neighbour had just looked`)
  assert.equal(await asksAfter(a, elsewhere, campaign, 4), 4, 'in another location the same claims all ask')
})

test('a refill reopens both isolates within a second, and neither closes the other again', async () => {
  const [a, b] = world.isolates as [string, string]
  const campaign = await soldOutInBoth()
  const stops = [await crowdAt(a, campaign), await crowdAt(b, campaign)]
  assert.equal((await deposit(world.runner, campaign.buckets[0]!, 'refill', 50)).outcome, 'moved')
  const refilledAt = Date.now()
  // Each isolate gets its own patient users: a claim accepted by one says nothing about the other.
  let tries = 0
  const reopened = async (url: string, name: string): Promise<void> => {
    for (;;) {
      const { status, code, sentAtMs } = await claimAt(url, campaign, `${name}-${tries++}`)
      if (status === 202) return
      assert.equal(code, 'SOLD_OUT')
      assert.ok(sentAtMs - refilledAt < secondMs, `${name} is still closed after a second`)
    }
  }
  await Promise.all([reopened(a, 'at-a'), reopened(b, 'at-b')])
  // The old epoch's marker is in the cache for a second more: nobody hears of it.
  const until = Date.now() + 1_200
  for (let i = 0; Date.now() < until && i < 40; i++)
    for (const [name, url] of [
      ['a', a],
      ['b', b],
    ] as const)
      assert.equal((await claimAt(url, campaign, `more-${name}-${i % 20}`)).status, 202)
  for (const stop of stops) {
    const heard = await stop()
    const open = heard.findIndex(({ status }) => status === 202)
    assert.ok(open > 0)
    for (const later of heard.slice(open)) assert.equal(later.status, 202)
  }
})

test('sold out at the next epoch, an isolate that knows the old one is not closed by it, nor kept open', async () => {
  const [a, b] = world.isolates as [string, string]
  const campaign = await soldOutInBoth()
  await deposit(world.runner, campaign.buckets[0]!, 'refill', 1)
  const stop = await crowdAt(a, campaign)
  await until(async () => (await claimAt(a, campaign, 'crowd')).status === 202, 'the crowd has the coupon')
  await standsAt(a, campaign, 'late')
  // B's marker is of epoch 1 and A's, in the cache, of epoch 2: B has to ask, and to learn the new holders.
  await standsAt(b, campaign, 'late')
  assert.equal(
    (await claimAt(b, campaign, 'crowd')).status,
    202,
    'the new holder gets his acceptance at B too',
  )
  await stop()
})

test('a campaign is asked for once for both, and its change is seen in both within viewTtlMs', async () => {
  const [a, b] = world.isolates as [string, string]
  const view = async (url: string, { id }: Campaign) => {
    const response = await fetch(`${url}/v1/campaigns/${id}`)
    return ((await response.json()) as { availability: string }).availability
  }
  const askedCore = ({ id }: Campaign) => world.core.calls.filter(({ path }) => path.endsWith(id)).length
  /** A campaign that both have, and that the core was asked for once. */
  const sharedCampaign = async (): Promise<Campaign> => {
    for (let tries = 1; ; tries++) {
      const made = await world.campaign()
      for (const url of [a, b]) assert.equal(await view(url, made), 'open')
      if (askedCore(made) === 1) return made
      // On a busy machine a look into the cache is given up after a moment, or finds what is old by then.
      assert.ok(tries < triesMax, 'the second isolate has never had it from the first')
    }
  }
  const campaign = await sharedCampaign()
  const before = askedCore(campaign)
  assert.equal(await view(elsewhere, campaign), 'open')
  assert.equal(askedCore(campaign), before + 1, 'another location asks for itself')
  campaign.snapshot.state = 'PAUSED'
  campaign.snapshot.config_version++
  const changedAt = Date.now()
  const seen = async (url: string): Promise<void> => {
    for (;;) {
      const sentAt = Date.now()
      if ((await view(url, campaign)) === 'paused') return
      assert.ok(sentAt - changedAt <= limits.viewTtlMs, `${url} does not see it`)
    }
  }
  await Promise.all([seen(a), seen(b)])
})
