import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { watchOpenBuckets } from './openBuckets.ts'
import { type Ground, openCampaign, openGround } from './testing.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
})
after(async () => {
  await ground.close()
  await Promise.all([database.drop(), discard(redis)])
})

test('a look that fails half way hides no log from the next one', async () => {
  const bucket = await openCampaign(ground, { quota: 1 })
  const { db, log, stores } = ground.deps
  let failures = 0
  const sql = new Proxy(db.issuance.sql, {
    apply(target, self, args: [TemplateStringsArray, ...unknown[]]) {
      // The second statement of the first look: campaigns that are over.
      if (failures === 0 && args[0].join('?').includes("('ENDED', 'VOIDED')")) {
        failures += 1
        return Promise.reject(new Error('the connection broke'))
      }
      return Reflect.apply(target, self, args)
    },
  })
  const watched = watchOpenBuckets(
    { db: { ...db, issuance: { ...db.issuance, sql } }, log, store: stores.main },
    () => undefined,
  )
  try {
    await until(() => watched.current().length > 0, 'the log was never found', 10_000)
    assert.equal(failures, 1)
    assert.deepEqual(watched.current(), [bucket])
  } finally {
    await watched.stop()
  }
})
