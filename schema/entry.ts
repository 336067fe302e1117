import { type Acceptance, unpackRecord } from './acceptance.ts'

/**
 * One entry of a bucket's log: all acceptances of one arbitration call.
 * Fields: a header pair `v` (claims) or `b` (ballot entries) → `<rule version>:<epoch>`, then a pair user → packed record for each acceptance
 * (a user may stand more than once, where the limit allows several coupons).
 */
export interface LogEntry {
  kind: 'claims' | 'ballot'
  entryId: string
  ruleVersion: number
  epoch: number
  claims: (Acceptance & { userId: string })[]
}

export class MalformedEntry extends Error {
  readonly entryId: string
  constructor(entryId: string, what: string) {
    super(`log entry ${entryId}: ${what}`)
    this.name = 'MalformedEntry'
    this.entryId = entryId
  }
}

/** Reads an entry as Redis gives it. @throws MalformedEntry */
export function parseEntry(entryId: string, fields: readonly string[]): LogEntry {
  const header = /^(\d{1,15}):(\d{1,15})$/.exec(fields[1] ?? '')
  if ((fields[0] !== 'v' && fields[0] !== 'b') || header === null)
    throw new MalformedEntry(entryId, 'no header')
  if (fields.length < 4 || fields.length % 2 !== 0) throw new MalformedEntry(entryId, 'no claims')
  const claims: LogEntry['claims'] = []
  for (let i = 2; i < fields.length; i += 2) {
    try {
      claims.push({ userId: fields[i]!, ...unpackRecord(fields[i + 1]!) })
    } catch (cause) {
      throw new MalformedEntry(entryId, `claim ${i / 2 - 1}: ${(cause as Error).message}`)
    }
  }
  return {
    entryId,
    kind: fields[0] === 'v' ? 'claims' : 'ballot',
    ruleVersion: Number(header[1]),
    epoch: Number(header[2]),
    claims,
  }
}
