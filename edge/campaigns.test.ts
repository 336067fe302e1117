import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeCampaignId } from '../schema/campaignId.ts'
import { limits } from '../schema/limits.ts'
import { parseKeyring } from '../schema/sealed.ts'
import type { CampaignSnapshot } from '../schema/view.ts'
import { bounds } from './bounds.ts'
import { makeCampaigns } from './campaigns.ts'
import type { LocationCache } from './locationCache.ts'
import { macFor } from './mac.ts'
import { campaign } from './testing.ts'

const ids = parseKeyring('CAMPAIGN_ID_KEYS', `k:${'s'.repeat(32)}`, macFor)
const id = makeCampaignId(crypto.getRandomValues(new Uint8Array(16)), ids)

/** One location with its cache, the core, and a clock that the test moves. */
class Place {
  nowMs = 1_000_000
  fetches = 0
  snapshot: CampaignSnapshot | undefined = campaign({ id })
  away = false
  readonly #cached = new Map<string, string>()
  readonly #cache: LocationCache = {
    get: async (name) => {
      const text = this.#cached.get(name)
      return text === undefined ? undefined : new Response(text)
    },
    put: async (name, body) => void this.#cached.set(name, String(body)),
  }

  isolate() {
    const works: Promise<unknown>[] = []
    const lifetime = { waitUntil: (work: Promise<unknown>) => void works.push(work) }
    const campaign = async () => {
      this.fetches++
      if (this.away) throw new Error('away')
      return this.snapshot
    }
    const unused = () => Promise.reject(new Error('not asked here'))
    const core = { campaign, ask: unused, tell: unused, remove: unused }
    const campaigns = makeCampaigns(core, this.#cache, ids, () => this.nowMs)
    return {
      find: (campaignId = id) => campaigns.find(campaignId, lifetime),
      settled: async () => {
        while (works.length > 0) await works.pop()
      },
    }
  }
}

test('ten thousand at once for a campaign that nobody has, or that is none, are one fetch', async () => {
  for (const snapshot of [campaign({ id }), undefined]) {
    const place = new Place()
    place.snapshot = snapshot
    const { find } = place.isolate()
    const found = await Promise.all(Array.from({ length: 10_000 }, () => find()))
    assert.ok(found.every((one) => one?.id === snapshot?.id))
    assert.equal(place.fetches, 1)
    place.nowMs += limits.viewNegativeTtlMs
    await Promise.all(Array.from({ length: 10_000 }, () => find()))
    assert.equal(place.fetches, 2)
  }
})

test('the isolates of a location share a fetch, and none shows a change later than its bound', async () => {
  const place = new Place()
  const isolates = Array.from({ length: 5 }, () => place.isolate())
  for (const { find } of isolates) assert.equal((await find())?.state, 'ACTIVE')
  assert.equal(place.fetches, 1)
  place.nowMs += limits.viewTtlMs * 0.6
  const late = place.isolate()
  await late.find()
  assert.equal(place.fetches, 1)
  place.snapshot = campaign({ id, state: 'PAUSED' })
  place.nowMs += limits.viewTtlMs * 0.4
  for (const { find } of [...isolates, late]) assert.equal((await find())?.state, 'PAUSED')
  assert.equal(place.fetches, 2)
})

test('ids that we never made cost neither the core nor the cache anything', async () => {
  const place = new Place()
  const { find } = place.isolate()
  for (let i = 0; i < 1_000; i++) assert.equal(await find(`c${String(i).padStart(24, '0')}`), undefined)
  assert.equal(place.fetches, 0)
})

test('a campaign that many ask for is fetched ahead of its end, and nobody waits for it (CL20)', async () => {
  const place = new Place()
  const { find, settled } = place.isolate()
  for (let i = 0; i <= bounds.hotCampaignGets; i++) await find()
  place.snapshot = campaign({ id, state: 'PAUSED' })
  place.nowMs += limits.viewTtlMs * 0.8
  assert.equal((await find())?.state, 'ACTIVE')
  await settled()
  assert.equal(place.fetches, 2)
  assert.equal((await find())?.state, 'PAUSED')
})

test('a campaign that few ask for is not fetched before somebody needs it', async () => {
  const place = new Place()
  const { find, settled } = place.isolate()
  await find()
  place.nowMs += limits.viewTtlMs * 0.8
  await find()
  await settled()
  assert.equal(place.fetches, 1)
})
