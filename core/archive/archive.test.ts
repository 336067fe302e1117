import assert from 'node:assert/strict'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { logKey } from '../../lua/keys.ts'
import { migrate } from '../../schema/db/migrate.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
  temporaryFolder,
} from '../../stack/testing.ts'
import { startDrain } from '../claim/drain.ts'
import { claimFor, type Ground, openCampaign, openGround, people } from '../claim/testing.ts'
import { connectDatabase } from '../db.ts'
import { makeDays } from './days.ts'
import { exportArchive } from './export.ts'
import { replayArchive } from './replay.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
})
after(async () => {
  await ground.close()
  await discard(redis)
  await database.drop()
})

async function withEmptyDatabase(work: (url: string) => Promise<void>): Promise<void> {
  const empty = await freshDatabase()
  try {
    await migrate(empty.url)
    await work(empty.url)
  } finally {
    await empty.drop()
  }
}

const ledgerOf = (sql: Ground['sql']) => sql`
  SELECT c.user_id, c.request_id, c.status, c.reason, c.coupon_id, c.key_fingerprint, k.claim_seq, k.rule_version
  FROM claims c LEFT JOIN coupons k USING (user_id, coupon_id) ORDER BY c.request_id`

it('the request log, exported and replayed into an empty database, gives the same claims and coupons up to the moment asked for (IS11)', async () => {
  await makeDays(ground.deps)
  await makeDays(ground.deps)
  // More than the ledger will give: some are rejected, in the copy too.
  const bucket = await openCampaign(ground, { quota: 150, gateStock: 160 })
  const first = await claimFor(ground, bucket, people(100, 'first'))
  const drain = startDrain(ground.deps, { consumer: 'archived' })
  await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)
  const lastOfFirst = Math.max(
    ...first.map(({ requestId }) => Number.parseInt(requestId.replace('-', '').slice(0, 12), 16)),
  )
  // After the last of these, and before the first of the others: no two instants are the same millisecond.
  const between = lastOfFirst + 1
  await until(() => Date.now() > between, 'the clock stands still', 10_000)
  await claimFor(ground, bucket, people(60, 'then "quoted\\"'))
  await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)
  await drain.stop()

  const folder = temporaryFolder('archive')
  const manifest = await exportArchive(ground.deps.db.admin, folder, Date.now() + 1)
  const requests = manifest.files.filter(({ name }) => name.startsWith('requests-'))
  assert.ok(requests.reduce((sum, { lines }) => sum + lines, 0) >= 3)

  await withEmptyDatabase(async (url) => {
    const copy = connectDatabase({ url, prepare: true })
    const made = await replayArchive(copy.admin, folder, Date.now() + 1)
    assert.deepEqual([made.issued, made.rejected], [150, 10])
    const copied = await copy.admin.sql`
      SELECT c.user_id, c.request_id, c.status, c.reason, c.coupon_id, c.key_fingerprint, k.claim_seq, k.rule_version
      FROM claims c LEFT JOIN coupons k USING (user_id, coupon_id) ORDER BY c.request_id`
    // bigint is a number here, and a text there.
    const plain = (rows: readonly object[]) =>
      rows.map((row) =>
        JSON.stringify(Object.values(row).map((value) => (value === null ? null : String(value)))),
      )
    assert.deepEqual(plain(copied), plain(await ledgerOf(ground.sql)))
    await assert.rejects(replayArchive(copy.admin, folder, Date.now()), /not empty/)
    await copy.close()
  })
  await withEmptyDatabase(async (url) => {
    const copy = connectDatabase({ url, prepare: true })
    const made = await replayArchive(copy.admin, folder, between)
    assert.deepEqual([made.issued, made.rejected], [100, 0])
    await copy.close()
  })
  appendFileSync(join(folder, manifest.files.at(-1)!.name), 'x')
  await withEmptyDatabase(async (url) => {
    const copy = connectDatabase({ url, prepare: true })
    await assert.rejects(replayArchive(copy.admin, folder, Date.now()), /damaged/)
    await copy.close()
  })
})
