import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { publishOnce } from '../notify/publisher.ts'
import { makeRig, type Rig } from '../rig.test.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

const base = '/admin/v1/webhook-endpoints'
const wanted = { url: 'https://shop.example/hooks', event_types: ['claim.delivered'] }

const make = (body: object = wanted, key: string = randomUUID(), who = 'operator:olga') =>
  rig.post(who, base, body, { 'Content-Type': 'application/json', 'Idempotency-Key': key })

const command = (path: string, version: number, key: string = randomUUID(), who = 'operator:olga') =>
  rig.post(who, `${base}/${path}`, undefined, { 'If-Match': `"${version}"`, 'Idempotency-Key': key })

test('an endpoint is made with its secret, which no later reading shows, nor the audit log or a kept answer', async () => {
  const key = randomUUID()
  const made = await make(wanted, key)
  assert.equal(made.status, 201, made.text)
  const { id, secret } = made.body as { id: string; secret: string }
  assert.match(secret, /^whsec_/)
  assert.equal(made.headers.get('Location'), `${base}/${id}`)
  const again = await make(wanted, key)
  assert.deepEqual([again.body, again.headers.get('Idempotency-Replayed')], [made.body, 'true'])
  assert.equal(
    (await make({ ...wanted, url: 'https://other.example/' }, key)).body['code'],
    'IDEMPOTENCY_MISMATCH',
  )
  const shown = await rig.get('support:sue', `${base}/${id}`)
  assert.equal(shown.headers.get('ETag'), '"1"')
  const list = await rig.get('support:sue', base)
  const kept = await rig.deps.db.admin.sql`
    SELECT answer::text AS text FROM idempotency_keys UNION ALL SELECT concat(before, after) FROM audit_log`
  for (const text of [shown.text, list.text, ...kept.map(({ text }) => text as string)])
    assert.doesNotMatch(text, /whsec_|"secret"/)
  assert.ok(list.text.includes(id))
})

test('a rotated secret is shown once more; its replay never shows a later one', async () => {
  const { id, secret } = (await make()).body as { id: string; secret: string }
  const key = randomUUID()
  const rotated = await command(`${id}/rotate-secret`, 1, key)
  assert.equal(rotated.status, 200, rotated.text)
  assert.notEqual(rotated.body['secret'], secret)
  assert.equal((await command(`${id}/rotate-secret`, 1, key)).body['secret'], rotated.body['secret'])
  assert.equal((await command(`${id}/rotate-secret`, 1)).status, 412)
  assert.equal((await command(`${id}/rotate-secret`, 2)).status, 200)
  assert.equal((await command(`${id}/rotate-secret`, 1, key)).body['secret'], undefined)
})

test('commands need the role, the key and the version, and refusals are recorded', async () => {
  const { id } = (await make()).body as { id: string }
  for (const verb of ['disable', 'enable', 'rotate-secret', 'resend']) {
    const refused = await command(`${id}/${verb}`, 1, randomUUID(), 'support:sue')
    assert.equal(refused.status, 403, verb)
  }
  assert.equal((await make(wanted, randomUUID(), 'support:sue')).status, 403)
  assert.equal((await rig.get('approver:anna', base)).status, 403)
  const path = `${base}/${id}/disable`
  assert.equal((await rig.post('operator:olga', path, undefined, { 'If-Match': '"1"' })).status, 428)
  assert.equal((await rig.post('operator:olga', path, undefined, { 'Idempotency-Key': 'k' })).status, 428)
  assert.equal((await command(`${id}/enable`, 1)).status, 409)
  const disabled = await command(`${id}/disable`, 1)
  assert.deepEqual([disabled.body['state'], disabled.body['disabled_reason']], ['DISABLED', 'operator'])
  assert.equal((await command(`${id}/enable`, 2)).body['state'], 'ENABLED')
  for (const unknown of [randomUUID(), 'x', '%00'])
    assert.equal((await command(`${unknown}/disable`, 1)).status, 404)
  const audit = await rig.get('auditor:ada', `/admin/v1/audit?target=${id}`)
  const rows = audit.body['data'] as { action: string; outcome: string }[]
  const of = (outcome: string) => rows.filter((row) => row.outcome === outcome).map(({ action }) => action)
  assert.deepEqual(of('done'), ['webhook.enable', 'webhook.disable', 'webhook.create'])
  assert.ok(of('refused').length >= 5)
})

test('URLs that lead into our network, or that nobody can check, are refused', async () => {
  for (const url of [
    'http://shop.example/',
    'https://10.0.0.1/',
    'https://[::1]/',
    'https://a:b@shop.example/',
    'x',
  ]) {
    const refused = await make({ url })
    assert.deepEqual([refused.status, refused.body['code']], [400, 'INVALID_REQUEST'], url)
  }
  assert.equal((await make({ ...wanted, event_types: ['Claim'] })).status, 400)
  assert.equal((await make({ ...wanted, secret: 'whsec_mine' })).status, 400)
})

test('deliveries are read in pages and by state, each with its attempts, and sent again by their id', async () => {
  const { id } = (await make({ url: 'https://shop.example/all' })).body as { id: string }
  const { sql } = rig.deps.db.admin
  await sql`
    INSERT INTO outbox (user_id, type, payload, created_at)
    SELECT 'ann', 'coupon.used', '{}', now() FROM generate_series(1, 5)`
  await publishOnce(rig.deps)
  const read = async (query: string) => {
    const page = await rig.get('support:sue', `${base}/${id}/deliveries?${query}`)
    assert.equal(page.status, 200, page.text)
    return page.body as { data: { webhook_id: string; state: string }[]; next_cursor: string | null }
  }
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await read(`limit=2${cursor && `&cursor=${cursor}`}`)
    seen.push(...page.data.map(({ webhook_id }) => webhook_id))
    cursor = page.next_cursor
  }
  assert.deepEqual([seen.length, new Set(seen).size], [5, 5])
  const [first] = seen
  const eventId = Number(first!.slice(4))
  await sql`UPDATE webhook_deliveries SET state = 'FAILED', attempts = 1 WHERE event_id = ${eventId}`
  await sql`
    INSERT INTO webhook_attempts SELECT ${id}, ${eventId}, 1, now(), 12, 500, 'It answered 500.'`
  assert.deepEqual(
    (await read('state=FAILED')).data.map(({ webhook_id }) => webhook_id),
    [first],
  )
  const attempts = await rig.get('support:sue', `${base}/${id}/deliveries/${first}/attempts`)
  const [attempt] = attempts.body['data'] as Record<string, unknown>[]
  assert.deepEqual([attempt!['status'], attempt!['error']], [500, 'It answered 500.'])
  const resend = (body: object, key: string = randomUUID()) =>
    rig.post('operator:olga', `${base}/${id}/resend`, body, {
      'Content-Type': 'application/json',
      'Idempotency-Key': key,
    })
  const key = randomUUID()
  assert.deepEqual((await resend({ webhook_id: first }, key)).body, { queued: 1 })
  assert.equal((await resend({ webhook_id: first }, key)).headers.get('Idempotency-Replayed'), 'true')
  assert.deepEqual((await read('state=FAILED')).data, [])
  assert.deepEqual((await resend({ failed_since: '2020-01-01T00:00:00Z' })).body, { queued: 0 })
  for (const webhook_id of ['evt_999999999', 'evt_x', 'x'])
    assert.equal((await resend({ webhook_id })).status, 404)
  assert.equal((await resend({})).status, 400)
})
