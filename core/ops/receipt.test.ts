import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { packTime, requestIdOf, userTag } from '../../schema/acceptance.ts'
import { parseKeyring } from '../../schema/sealed.ts'
import { sealReceipt, sealTicket } from '../../schema/tokens.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { macFor } from '../keyrings.ts'
import { runOps } from './run.ts'

const oldKey = `k1:${'o'.repeat(32)}`
const newKey = `k2:${'n'.repeat(32)}`
const ring = (keys: string) => parseKeyring('RECEIPT_KEYS', keys, macFor)

const userId = '张三 \n:%'
const acceptedAtMs = Date.parse('2026-11-11T00:00:00.123Z')
const requestId = requestIdOf(`${packTime(acceptedAtMs)}-aaaaaaaaa${userTag(userId)}`)
const receipt = sealReceipt({ campaignId: 'c1', bucket: 0, requestId, userId }, ring(oldKey))

/** No core, no Redis, no network: only the keys. */
async function verify(text: string, env: Record<string, string>, home = temporaryFolder('receipt')) {
  const out: string[] = []
  const err: string[] = []
  const code = await runOps(['receipt', 'verify', '--receipt', text, '--json'], {
    env,
    home,
    out: (line) => out.push(line),
    err: (line) => err.push(line),
    readStdin: () => '',
  })
  return { code, out, err: err.join('\n') }
}

const proof = {
  campaign_id: 'c1',
  request_id: requestId,
  user_id: userId,
  accepted_at: '2026-11-11T00:00:00.123Z',
}

test('a receipt is verified offline, also after its key was rotated', async () => {
  const { code, out } = await verify(receipt, { RECEIPT_KEYS: `${newKey},${oldKey}` })
  assert.equal(code, 0)
  assert.deepEqual(JSON.parse(out[0]!), proof)
})

test('without RECEIPT_KEYS the local stack’s keys are used; without any it says what to give', async () => {
  const home = temporaryFolder('receipt')
  writeFileSync(join(home, 'keys.json'), JSON.stringify({ receiptKeys: oldKey }))
  assert.equal((await verify(receipt, {}, home)).code, 0)
  const none = await verify(receipt, {})
  assert.equal(none.code, 2)
  assert.match(none.err, /RECEIPT_KEYS/)
  const odd = await verify(receipt, { RECEIPT_KEYS: 'k1:too short' })
  assert.equal(odd.code, 2)
  assert.doesNotMatch(odd.err, /too short/)
})

test('a receipt that is altered anywhere, of another kind or under a key taken away exits with 1 and proves nothing', async () => {
  const env = { RECEIPT_KEYS: oldKey }
  const texts = [
    sealTicket({ campaignId: 'c1', bucket: 0, requestId, userId }, ring(oldKey)),
    sealReceipt({ campaignId: 'c1', bucket: 0, requestId, userId }, ring(newKey)),
    `${receipt} `,
    'x',
  ]
  for (let at = 0; at < receipt.length; at++)
    texts.push(receipt.slice(0, at) + String.fromCharCode(receipt.charCodeAt(at) ^ 1) + receipt.slice(at + 1))
  for (const text of texts) {
    const { code, out, err } = await verify(text, env)
    assert.deepEqual([code, out], [1, []], text)
    assert.match(err, /not genuine/)
  }
})
