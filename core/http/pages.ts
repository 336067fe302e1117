import { z } from '@hono/zod-openapi'
import { limits } from '../../schema/limits.ts'
import { Refused } from '../refusal.ts'

/** Keyset pages (DESIGN §7): `?limit=&cursor=` → `{ data, next_cursor }`. */

export const pageQuery = {
  limit: z.coerce
    .number({ error: `give a number from 1 to ${limits.pageSizeMax}` })
    .int('give a whole number')
    .min(1, 'give at least 1')
    .max(limits.pageSizeMax, `give at most ${limits.pageSizeMax}`)
    .default(limits.pageSizeDefault)
    .openapi({ param: { name: 'limit', in: 'query' }, example: limits.pageSizeDefault }),
  cursor: z
    .string()
    .max(400)
    .optional()
    .openapi({ param: { name: 'cursor', in: 'query' }, description: 'next_cursor of the page before.' }),
}

export function pageShape<T extends z.ZodType>(item: T) {
  return z.object({
    data: z.array(item),
    next_cursor: z.string().nullable().openapi({ description: 'null on the last page.' }),
  })
}

/** A cursor is the position of a page's last item; opaque to callers. */
export function encodeCursor(at: Date, id: string): string {
  return Buffer.from(`${at.getTime()}:${id}`).toString('base64url')
}

/** @throws Refused INVALID_REQUEST */
export function decodeCursor(cursor: string): { at: Date; id: string } {
  const match = /^(\d{1,15}):([A-Za-z0-9-]{1,64})$/.exec(Buffer.from(cursor, 'base64url').toString())
  if (match === null)
    throw new Refused('INVALID_REQUEST', {
      detail: 'Correct cursor: give next_cursor of an earlier page, unchanged.',
    })
  return { at: new Date(Number(match[1])), id: match[2]! }
}

/** Cuts the extra item, which was read to know whether there is a next page. */
export function pageOf<T, Item>(
  rows: readonly T[],
  limit: number,
  itemOf: (row: T) => Item,
  cursorOf: (row: T) => string,
): { data: Item[]; next_cursor: string | null } {
  const shown = rows.slice(0, limit)
  return {
    data: shown.map(itemOf),
    next_cursor: rows.length > limit ? cursorOf(shown.at(-1)!) : null,
  }
}
