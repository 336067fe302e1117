import { join } from 'node:path'
import postgres from 'postgres'
import { startPostgres } from '../../stack/postgres.ts'
import { temporaryFolder } from '../../stack/testing.ts'

const connections = 10
const measureMs = 2000

/**
 * The design without Redis: one statement a claim takes stock by a conditional update and inserts the coupon under
 * a unique key (A4 §16.1). fsync on, as in production.
 */
export async function measurePostgresPeer(say: (line: string) => void): Promise<{ per_s: number }> {
  const server = await startPostgres({
    dir: join(temporaryFolder('bench-postgres'), 'postgres'),
    background: true,
  })
  const sql = postgres(server.url, { max: connections, onnotice: () => undefined })
  try {
    await sql`CREATE TABLE peer_stock (id int PRIMARY KEY, remaining bigint NOT NULL CHECK (remaining >= 0))`
    await sql`CREATE TABLE peer_coupons (campaign int, user_id text, PRIMARY KEY (campaign, user_id))`
    await sql`INSERT INTO peer_stock VALUES (1, 100000000)`
    let user = 0
    let done = 0
    const started = performance.now()
    const until = started + measureMs
    await Promise.all(
      Array.from({ length: connections }, async () => {
        while (performance.now() < until) {
          await sql`
            WITH mine AS (
              INSERT INTO peer_coupons VALUES (1, ${`user-${user++}`}) ON CONFLICT DO NOTHING RETURNING 1
            )
            UPDATE peer_stock SET remaining = remaining - 1
            WHERE id = 1 AND remaining > 0 AND EXISTS (SELECT FROM mine) RETURNING remaining`
          done++
        }
      }),
    )
    const perSecond = Math.round((done / (performance.now() - started)) * 1000)
    say(`  postgres conditional update     ${perSecond} /s  (${connections} connections)`)
    return { per_s: perSecond }
  } finally {
    await sql.end({ timeout: 5 })
    await server.stop()
  }
}
