import { OpsError } from './errors.ts'

/** Options' texts as values. */

/** @throws OpsError when it was not given */
export function needed(value: string | undefined, what: string): string {
  if (value === undefined || value === '') throw new OpsError('usage', `Give ${what}.`)
  return value
}

/** @throws OpsError unless it is a whole number */
export function whole(text: string, what: string): number {
  if (!/^\d{1,12}$/.test(text)) throw new OpsError('usage', `${what} is a whole number.`)
  return Number(text)
}

const unitS: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400 }
/** Of a text like 30m, 24h or 7d. @throws OpsError */
export function secondsOf(text: string): number {
  const match = /^(\d{1,6})([smhd])$/.exec(text)
  if (match === null || Number(match[1]) === 0)
    throw new OpsError('usage', '--ttl is a number and a unit, like 30m, 24h or 7d.')
  return Number(match[1]) * unitS[match[2]!]!
}
