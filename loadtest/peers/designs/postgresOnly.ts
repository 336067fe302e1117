import { type Design, makeCoupons } from './design.ts'

const uniqueViolation = '23505'

/** No Redis: one statement takes stock by a conditional update and inserts under unique keys (A4 §16.1). */
export const postgresOnly: Design = {
  name: 'postgres-only',
  about: 'One statement a claim: conditional update of the stock row, unique keys (article A4 §16.1)',
  store: 'postgres',
  async prepare({ sql }, quota) {
    await makeCoupons(sql, 'PRIMARY KEY (user_id), UNIQUE (request_id)')
    await sql.unsafe('DROP TABLE IF EXISTS peer_stock; CREATE TABLE peer_stock (remaining bigint NOT NULL)')
    await sql`INSERT INTO peer_stock VALUES (${quota})`
  },
  async claim({ sql }, userId, key) {
    const [had] = await sql`SELECT request_id = ${key} AS same FROM peer_coupons WHERE user_id = ${userId}`
    if (had !== undefined) return had['same'] === true ? 'ACCEPTED' : 'LIMIT_REACHED'
    try {
      const made = await sql`
        WITH taken AS (UPDATE peer_stock SET remaining = remaining - 1 WHERE remaining > 0 RETURNING 1)
        INSERT INTO peer_coupons SELECT ${key}, ${userId} FROM taken RETURNING 1`
      return made.length > 0 ? 'ACCEPTED' : 'SOLD_OUT'
    } catch (error) {
      // Another claim of this user was quicker, and the statement took nothing: the next look finds it.
      if ((error as { code?: string }).code === uniqueViolation) return 'BUSY'
      throw error
    }
  },
  pending: async () => 0,
  remaining: async ({ sql }) => Number((await sql`SELECT remaining FROM peer_stock`)[0]!['remaining']),
}
