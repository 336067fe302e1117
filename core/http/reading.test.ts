import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { demoCampaign } from '../ops/demo.ts'
import { makeRig, type Rig } from '../rig.test.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

interface Made {
  id: string
}
async function make(): Promise<Made> {
  const options = { name: 'read', quota: 10, perUserLimit: 1, opensInS: 0, hours: 1, nowMs: Date.now() }
  const made = await rig.post('operator:olga', '/admin/v1/campaigns', demoCampaign(options))
  assert.equal(made.status, 201, made.text)
  return made.body as unknown as Made
}

test('lists come newest first in keyset pages that miss and repeat nothing', async () => {
  const ids = new Set<string>()
  for (let i = 0; i < 5; i++) ids.add((await make()).id)
  const seen: string[] = []
  let cursor = ''
  do {
    const page = await rig.get('support:sue', `/admin/v1/campaigns?limit=2${cursor && `&cursor=${cursor}`}`)
    assert.equal(page.status, 200, page.text)
    seen.push(...(page.body['data'] as Made[]).map(({ id }) => id))
    cursor = (page.body['next_cursor'] as string | null) ?? ''
  } while (cursor !== '')
  assert.equal(new Set(seen).size, seen.length)
  assert.deepEqual(new Set(seen.slice(0, 5)), ids)
  assert.equal((await rig.get('support:sue', '/admin/v1/campaigns?cursor=nonsense')).status, 400)
  assert.equal((await rig.get('support:sue', '/admin/v1/campaigns?limit=0')).status, 400)
})

test('the audit log is read in pages and by its filters, and not by everybody', async () => {
  await make()
  const page = await rig.get('auditor:ada', '/admin/v1/audit?limit=1&outcome=done&actor=olga')
  assert.equal((page.body['data'] as unknown[]).length, 1)
  const next = await rig.get('auditor:ada', `/admin/v1/audit?limit=1&cursor=${page.body['next_cursor']}`)
  assert.equal(next.status, 200)
  assert.notDeepEqual(next.body['data'], page.body['data'])
  assert.equal((await rig.get('support:sue', '/admin/v1/audit')).status, 403)
})

test('an id that was never made is not found, whatever its form', async () => {
  for (const id of ['c1', 'x'.repeat(500), '%00', 'c0123456789abcdefghjkmnpq']) {
    const answer = await rig.get('operator:olga', `/admin/v1/campaigns/${id}`)
    assert.deepEqual([answer.status, answer.body['code']], [404, 'CAMPAIGN_NOT_FOUND'])
  }
})
