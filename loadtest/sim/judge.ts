import type { Ledger } from './audit.ts'
import type { GateMoment } from './server.ts'
import type { Answer, Record } from './shoppers.ts'

/** What people were told, held against one another and against what stands in the ledger at the end. */
export interface Testimony {
  record: Record
  ledger: Ledger
  /** Instants at which Redis forgot something. */
  lossesAtMs: readonly number[]
  /** When the gate of a user's bucket was rebuilt. */
  rebuildsOf(userId: string): readonly number[]
  /** What the gate of a user's bucket held, moment by moment. */
  momentsOf(userId: string): readonly GateMoment[]
}

/** SOLD_OUT may be said from memory for so long after it was true (a refill reopens within the second). */
const soldOutHoldsMs = 1_000

/** Whoever has an acceptance under this key may hear these instead of it: ask again. */
const undecided = new Set([
  'ACCEPTED',
  'no answer',
  'BUSY',
  'NOT_READY',
  'OUTCOME_UNKNOWN',
  'UNAVAILABLE',
  'RATE_LIMITED',
])
const faults = /^(INTERNAL|INVALID_REQUEST|TOKEN_INVALID|TOKEN_EXPIRED|UNAUTHENTICATED|NOT_ELIGIBLE|status )/

export function judgeAnswers(testimony: Testimony): string[] {
  const { record } = testimony
  const broken: string[] = []
  judgeKeys(testimony, broken)
  for (const answer of record.answers) {
    if (faults.test(answer.code)) broken.push(`4: ${answer.userId} heard ${answer.code}: ${answer.body}`)
    if (answer.code === 'SOLD_OUT' && !wasSoldOut(testimony, answer))
      broken.push(`1: ${answer.userId} heard SOLD_OUT with ${answer.key} while there was stock`)
  }
  judgeTold(testimony, broken)
  return broken
}

/**
 * The same key has the same answer, once its client has seen one. Of what Redis lost that only holds from its rebuild
 * on, and for what stood in the ledger before.
 */
function judgeKeys(testimony: Testimony, broken: string[]): void {
  const first = new Map<string, Answer>()
  for (const answer of testimony.record.answers) {
    const name = `${answer.userId} ${answer.key}`
    const seen = first.get(name)
    if (seen === undefined) {
      if (answer.code === 'ACCEPTED') first.set(name, answer)
      continue
    }
    if (isForgotten(testimony, seen, answer)) continue
    const mismatch = answer.device !== seen.device
    if (answer.code === 'ACCEPTED') {
      if (mismatch) broken.push(`4: ${name} was accepted again from another device`)
      else if (answer.body !== seen.body)
        broken.push(`4: ${name} was request ${seen.requestId} first, and ${answer.requestId} then`)
    } else if (answer.askedAtMs > seen.answeredAtMs && !undecided.has(answer.code)) {
      if (!(mismatch && answer.code === 'IDEMPOTENCY_MISMATCH'))
        broken.push(`4: ${name} was request ${seen.requestId} first, and ${answer.code} then`)
    }
  }
}

function isForgotten({ lossesAtMs, rebuildsOf, ledger }: Testimony, seen: Answer, answer: Answer): boolean {
  const settledAtMs = ledger.claims.find(({ request_id }) => request_id === seen.requestId)?.settled_ms
  return lossesAtMs.some((lostAtMs) => {
    if (lostAtMs < seen.askedAtMs || lostAtMs > answer.answeredAtMs) return false
    if (settledAtMs === undefined || settledAtMs >= lostAtMs) return true
    const rebuiltAtMs = rebuildsOf(seen.userId).find((atMs) => atMs > lostAtMs)
    return rebuiltAtMs === undefined || answer.askedAtMs <= rebuiltAtMs
  })
}

function wasSoldOut({ momentsOf }: Testimony, { userId, askedAtMs, answeredAtMs }: Answer): boolean {
  const fromMs = askedAtMs - soldOutHoldsMs
  const moments = momentsOf(userId)
  return moments.some(({ remaining, atMs }, i) => {
    const untilMs = moments[i + 1]?.atMs ?? Number.POSITIVE_INFINITY
    return remaining === 0 && atMs <= answeredAtMs && untilMs >= fromMs
  })
}

/** Each acceptance that a client saw has ended, as everybody was told that it did. */
function judgeTold({ record, ledger }: Testimony, broken: string[]): void {
  const claims = new Map(ledger.claims.map((claim) => [claim.request_id, claim]))
  for (const { requestId, userId } of record.acceptances.values()) {
    const claim = claims.get(requestId)
    if (claim === undefined)
      broken.push(`5: ${userId} saw request ${requestId} accepted, and there is no such claim`)
    else if (claim.user_id !== userId)
      broken.push(`5: request ${requestId} of ${userId} is ${claim.user_id}’s`)
  }
  for (const { requestId, status, reason, by, userId } of record.told) {
    const claim = claims.get(requestId)
    if (claim?.status !== status || (status === 'REJECTED' && claim.reason !== reason))
      broken.push(
        `5: ${userId} was told ${status} of ${requestId} by ${by}, and it is ${claim?.status ?? 'nothing'}`,
      )
  }
  for (const { userId, at, heard } of record.listeners) {
    if (at?.process.alive !== true) continue
    for (const { user_id, request_id, status } of ledger.claims)
      if (user_id === userId && !heard.has(request_id))
        broken.push(
          `5: ${userId} listened at ${at.process.name} and never heard that ${request_id} is ${status}`,
        )
  }
  for (const follow of record.follows) {
    const { requestId, userId } = follow.acceptance
    const listens = follow.listeningAt?.process.alive === true
    if (listens && follow.final === undefined)
      broken.push(
        `5: ${userId} listened at ${follow.listeningAt!.process.name} and never heard of ${requestId}`,
      )
  }
}
