import type { Acceptance } from '../../schema/acceptance.ts'
import { MalformedEntry, parseEntry } from '../../schema/entry.ts'

/** An entry of a bucket's log as Redis gives it. */
export interface RawEntry {
  id: string
  fields: readonly string[]
}

/** A claim and where it stands in the log. */
export interface LoggedClaim extends Acceptance {
  userId: string
  entryMs: number
  entrySeq: number
  entry: RawEntry
  /** Which claim of its entry, from 0. */
  position: number
}

/** What stands in the log but can't be read. */
export interface Unreadable {
  entry: RawEntry
  /** Which claim of its entry, from 0; −1 when nothing of the entry can be told apart. */
  position: number
  cause: string
}

/** Entries that share their rules: one transaction issues them. */
export interface Group {
  kind: 'claims' | 'ballot'
  ruleVersion: number
  entries: RawEntry[]
  /** Each request once, in the order of acceptance (case-I2). */
  claims: LoggedClaim[]
  unreadable: Unreadable[]
}

/** Reads entries and sorts them into groups. Nothing is thrown: what can't be read is told apart from the rest. */
export function groupEntries(entries: readonly RawEntry[]): Group[] {
  const groups = new Map<string, Group>()
  const seen = new Set<string>()
  for (const entry of entries) {
    const parts = readEntry(entry)
    const key = `${parts.kind}:${parts.ruleVersion}`
    let group = groups.get(key)
    if (group === undefined) {
      group = { kind: parts.kind, ruleVersion: parts.ruleVersion, entries: [], claims: [], unreadable: [] }
      groups.set(key, group)
    }
    group.entries.push(entry)
    group.unreadable.push(...parts.unreadable)
    for (const claim of parts.claims) {
      if (seen.has(claim.requestId)) continue
      seen.add(claim.requestId)
      group.claims.push(claim)
    }
  }
  return [...groups.values()]
}

type EntryParts = Pick<Group, 'kind' | 'ruleVersion' | 'claims' | 'unreadable'>

function readEntry(entry: RawEntry): EntryParts {
  const [entryMs, entrySeq] = entry.id.split('-').map(Number) as [number, number]
  try {
    const { kind, ruleVersion, claims } = parseEntry(entry.id, entry.fields)
    return {
      kind,
      ruleVersion,
      unreadable: [],
      claims: claims.map((claim, position) => Object.assign(claim, { entryMs, entrySeq, entry, position })),
    }
  } catch (error) {
    if (!(error instanceof MalformedEntry)) throw error
    return readEntryByClaim(entry, error)
  }
}

/** One unreadable claim must not take the other claims of its entry with it. */
function readEntryByClaim(entry: RawEntry, whole: MalformedEntry): EntryParts {
  const [entryMs, entrySeq] = entry.id.split('-').map(Number) as [number, number]
  const parts: EntryParts = { kind: 'claims', ruleVersion: 0, claims: [], unreadable: [] }
  const { fields } = entry
  let readable = false
  const pairs = fields.length % 2 === 0 ? fields.length / 2 - 1 : 0
  for (let position = 0; position < pairs; position++) {
    try {
      const { kind, ruleVersion, claims } = parseEntry(entry.id, claimFields(entry, position))
      Object.assign(parts, { kind, ruleVersion })
      parts.claims.push(Object.assign(claims[0]!, { entryMs, entrySeq, entry, position }))
      readable = true
    } catch (error) {
      if (!(error instanceof MalformedEntry)) throw error
      parts.unreadable.push({ entry, position, cause: error.message })
    }
  }
  if (!readable) parts.unreadable = [{ entry, position: -1, cause: whole.message }]
  return parts
}

/** The fields of an entry that would hold only this claim; of the whole entry for −1. */
export function claimFields(entry: RawEntry, position: number): string[] {
  const { fields } = entry
  return position < 0
    ? [...fields]
    : [fields[0]!, fields[1]!, fields[2 + 2 * position]!, fields[3 + 2 * position]!]
}

/** A group of some of another group's claims, without its entries: those are settled once, by the whole. */
export function part(group: Group, claims: LoggedClaim[]): Group {
  return { ...group, entries: [], unreadable: [], claims }
}
