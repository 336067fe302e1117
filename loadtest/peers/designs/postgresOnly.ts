import { type Design, makeCoupons } from './design.ts'

class SoldOut extends Error {}
const uniqueViolation = '23505'

/** No Redis: one statement inserts the coupon under unique keys and takes stock by a conditional update (A4 §16.1). */
export const postgresOnly: Design = {
  name: 'postgres-only',
  about: 'One transaction a claim: unique keys and a conditional update of the stock row (article A4 §16.1)',
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
      await sql.begin(async (tx) => {
        await tx`INSERT INTO peer_coupons VALUES (${key}, ${userId})`
        const taken =
          await tx`UPDATE peer_stock SET remaining = remaining - 1 WHERE remaining > 0 RETURNING 1`
        if (taken.length === 0) throw new SoldOut()
      })
      return 'ACCEPTED'
    } catch (error) {
      if (error instanceof SoldOut) return 'SOLD_OUT'
      // Another claim of this user was quicker: the next look finds it.
      if ((error as { code?: string }).code === uniqueViolation) return 'BUSY'
      throw error
    }
  },
  pending: async () => 0,
  remaining: async ({ sql }) => Number((await sql`SELECT remaining FROM peer_stock`)[0]!['remaining']),
}
