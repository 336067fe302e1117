import { randomUUID } from 'node:crypto'
import type { Told } from '../audit/audit.ts'
import type { Person } from './population.ts'

/** What a client was told when its claim was accepted. */
export interface Acceptance extends Told {
  campaignId: string
  body: string
  receipt: string
  statusPath: string
  eventsPath: string
  pollAfterMs: number
  acceptedAtMs: number
  address: string
}

/** A person of the plan while the run lasts. */
export interface Visitor {
  readonly person: Person
  readonly userId: string
  readonly deviceId: string
  readonly key: string
  /** Asks the gate how long it took. */
  readonly timed: boolean
  /** Undefined until it is needed, or fetched. */
  token: string | undefined
  acceptance: Acceptance | undefined
  /** An answer stayed away, or said that nobody knows: what became of the claim is to be asked. */
  unknown: boolean
}

/** One of so many people is timed inside the gate too. */
const timedEvery = 20

export function makeVisitors(people: readonly Person[]): Visitor[] {
  const run = randomUUID().slice(0, 8)
  return people.map((person, i) => ({
    person,
    userId: `visitor-${run}-${i}`,
    deviceId: `device-${run}-${i}`,
    key: randomUUID(),
    timed: i % timedEvery === 0,
    token: undefined,
    acceptance: undefined,
    unknown: false,
  }))
}

/** @throws on a body that is no acceptance. */
export function readAcceptance(visitor: Visitor, campaignId: string, body: string): Acceptance {
  const answer = JSON.parse(body) as Record<string, string> & { poll_after_ms: number }
  return {
    userId: visitor.userId,
    requestId: answer['request_id']!,
    campaignId,
    body,
    receipt: answer['receipt']!,
    statusPath: answer['status_url']!,
    eventsPath: answer['events_url']!,
    pollAfterMs: answer.poll_after_ms,
    acceptedAtMs: Date.parse(answer['accepted_at']!),
    address: visitor.person.address,
  }
}
