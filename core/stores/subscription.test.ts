import { after, before, it } from 'node:test'
import { until } from '../../stack/process.ts'
import { type FreshCluster, freshCluster } from '../../stack/redis-cluster.ts'
import { type FreshDatabase, freshDatabase } from '../../stack/testing.ts'
import { type Ground, openGround } from '../claim/testing.ts'
import { startHub } from '../notify/hub.ts'
import { publishOnce } from '../notify/publisher.ts'

let database: FreshDatabase
let cluster: FreshCluster
let ground: Ground
before(async () => {
  ;[database, cluster] = await Promise.all([freshDatabase(), freshCluster(3)])
  ground = await openGround(database.url, cluster.masters.map(({ url }) => url).join(','))
})
after(async () => {
  await ground?.close()
  await cluster?.stop()
  await database?.drop()
})

const addEvent = () => ground.sql`
  INSERT INTO outbox (user_id, type, payload, created_at) VALUES ('ann', 'coupon.used', '{}', now())`

it('results told through a cluster reach every process, also when the node that it listens to goes away', async () => {
  const heard: number[][] = [[], []]
  for (const ear of heard)
    ground.runs(startHub(ground.deps)).follow({ userId: 'ann', hear: ({ eventId }) => ear.push(eventId) })
  const tell = async (count: number) => {
    await addEvent()
    await until(
      async () => {
        await publishOnce(ground.deps).catch(() => undefined)
        return heard.every((ear) => new Set(ear).size === count)
      },
      `not heard everywhere: ${JSON.stringify(heard)}`,
      20_000,
    )
  }
  await tell(1)
  // Both listen to one of these three.
  await cluster.masters[0]!.kill()
  await tell(2)
  await cluster.masters[1]!.kill()
  await tell(3)
  // What was heard may have been told by one that never learned of it: it is told once more, and then no more.
  const untold = async () => {
    await publishOnce(ground.deps).catch(() => undefined)
    return (await ground.sql`SELECT 1 FROM outbox WHERE published_at IS NULL`).length
  }
  await until(async () => (await untold()) === 0, 'not all is marked as told', 20_000)
})
