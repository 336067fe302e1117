import type { Fault, HistoryEvent, Opening, Operation } from './history.ts'

/** What stands when everything is at rest. */
export interface AtRest {
  quota: number
  perUserLimit: number
  claims: readonly { userId: string; requestId: string; status: string; reason: string | null }[]
  /** Between which instants stock came back or was added, by the ledger; ms since the epoch. */
  restocked: readonly { fromMs: number; toMs: number }[]
  /** Request ids that stand in Redis. */
  recorded: ReadonlySet<string>
}

/** What the arbiter decides for good; every other code asks to come back, or never looked at the claim. */
const decided = new Set([
  ...['SOLD_OUT', 'LIMIT_REACHED', 'TOKEN_USED', 'IDEMPOTENCY_MISMATCH'],
  ...['PAUSED', 'ENDED', 'VOIDED', 'NOT_STARTED'],
])
/** Codes that tell a user of another claim of theirs. */
const anothers = new Set(['LIMIT_REACHED', 'TOKEN_USED', 'IDEMPOTENCY_MISMATCH'])
/** SOLD_OUT may be a memory of the gate so old. */
const soldOutHoldsMs = 1_000
/** The ledger's clock and the recorder's are of one machine, but not the same. */
const clocksApartMs = 50

type Accepted = Operation & { answer: { outcome: 'accepted' }; completed_ms: number }

interface Case {
  opening: Opening
  operations: readonly Operation[]
  accepted: readonly Accepted[]
  byKey: ReadonlyMap<string, Operation[]>
  events: readonly HistoryEvent[]
  /** Instants at which Redis may have forgotten something. */
  forgot: readonly number[]
  rest: AtRest
  claims: ReadonlyMap<string, AtRest['claims'][number]>
}

const rules: readonly ((at: Case) => Iterable<string>)[] = [
  oneAnswer,
  withinQuota,
  withinTheWindow,
  withinTheCommands,
  unknownResolved,
  soldOutStays,
  everyoneTold,
  recordsStand,
]

/**
 * Judges a history by itself and by what stands at rest. Written from DESIGN §3 and §4; it shares no code with the
 * product.
 * @returns each broken rule in words
 */
export function auditHistory(events: readonly HistoryEvent[], rest: AtRest): string[] {
  const opening = events.find((event) => event.type === 'campaign')
  if (opening === undefined) return ['history: it names no campaign']
  const operations = events.filter((event) => event.type === 'operation')
  const accepted = operations.filter(isAccepted)
  if (accepted.length === 0) return ['history: nobody was accepted, so it proves nothing']
  const byKey = Map.groupBy(
    operations.filter(({ operation }) => operation === 'claim'),
    ({ user, key }) => JSON.stringify([user, key]),
  )
  const faults = events.filter((event): event is Fault => event.type === 'fault')
  const forgot = faults.filter(({ forgets }) => forgets).map(({ at_ms }) => at_ms)
  const claims = new Map(rest.claims.map((claim) => [claim.requestId, claim]))
  const at: Case = { opening, operations, accepted, byKey, events, forgot, rest, claims }
  return rules.flatMap((rule) => [...rule(at)])
}

function isAccepted(operation: Operation): operation is Accepted {
  return operation.answer.outcome === 'accepted' && operation.completed_ms !== null
}

/** The same key has one answer ever; a refusal may become an acceptance, an acceptance never a refusal. */
function* oneAnswer({ byKey, operations }: Case): Iterable<string> {
  const honoured = new Set(
    operations.filter(({ operation }) => operation === 'receipt').map(({ user }) => user),
  )
  for (const mine of byKey.values()) {
    const accepted = mine.filter(isAccepted)
    const ids = new Set(accepted.map(({ answer }) => answer.request_id))
    const { user } = mine[0]!
    if (ids.size > 1) yield `4: a key of ${user} was accepted as ${[...ids].join(' and ')}`
    const first = Math.min(...accepted.map(({ completed_ms }) => completed_ms))
    for (const { invoked_ms, answer } of mine) {
      if (answer.outcome !== 'refused' || invoked_ms <= first || !decided.has(answer.code)) continue
      if (answer.code === 'LIMIT_REACHED' && honoured.has(user)) continue
      yield `4: ${user} heard ${answer.code} for a key that had been accepted`
    }
  }
}

/** Acceptances told and not rejected later never exceed the quota, nor a user's limit. */
function* withinQuota({ accepted, claims, rest }: Case): Iterable<string> {
  const standing = new Map<string, string>()
  for (const { user, answer } of accepted)
    if (claims.get(answer.request_id)?.status !== 'REJECTED') standing.set(answer.request_id, user)
  if (standing.size > rest.quota) yield `1: ${standing.size} acceptances stand, the quota is ${rest.quota}`
  for (const [user, all] of Map.groupBy(standing.values(), (user) => user))
    if (all.length > rest.perUserLimit) yield `2: ${all.length} acceptances of ${user} stand`
}

/** By true time, whatever a clock of the system says. */
function* withinTheWindow({ accepted, opening }: Case): Iterable<string> {
  for (const { user, answer, invoked_ms, completed_ms } of accepted) {
    if (completed_ms < opening.starts_ms) yield `window: ${user} was accepted before the start`
    if (!answer.replayed && invoked_ms > opening.ends_ms) yield `window: ${user} was accepted after the end`
  }
}

/** Nothing is accepted between the word that every gate is closed and the command that opens them. */
function* withinTheCommands({ accepted, events, byKey }: Case): Iterable<string> {
  const commands = events.filter((event) => event.type === 'command')
  for (const closed of commands) {
    if (!['pause', 'end', 'void'].includes(closed.verb)) continue
    const opened = commands.find(
      ({ verb, invoked_ms }) => verb === 'resume' && invoked_ms > closed.completed_ms,
    )
    const untilMs = opened?.invoked_ms ?? Number.POSITIVE_INFINITY
    for (const one of accepted) {
      if (one.answer.replayed || one.invoked_ms < closed.completed_ms || one.completed_ms > untilMs) continue
      // Its first attempt may have been accepted before, and its answer lost: then this is that acceptance.
      const earlier = byKey.get(JSON.stringify([one.user, one.key]))![0]!
      if (earlier.invoked_ms >= closed.completed_ms || one.answer.accepted_at_ms > closed.completed_ms)
        yield `pause: ${one.user} was accepted after ${closed.verb} had reached every gate`
    }
  }
}

/** Whoever got no answer finds out by the same key, and has not got two. */
function* unknownResolved({ byKey, claims, rest, forgot }: Case): Iterable<string> {
  const byUser = Map.groupBy(rest.claims, ({ userId }) => userId)
  const keysOf = Map.groupBy(byKey.values(), ([first]) => first!.user)
  for (const mine of byKey.values()) {
    const { user } = mine[0]!
    const doubtful = mine.find(({ answer }) => answer.outcome === 'unknown')
    if (doubtful === undefined || keysOf.get(user)!.length > 1) continue
    const told = mine.find(isAccepted)?.answer.request_id
    for (const { answer } of mine)
      if (told === undefined && answer.outcome === 'refused' && anothers.has(answer.code))
        yield `4: ${user} got no answer, and by the same key ${answer.code}`
    const delivered = (byUser.get(user) ?? []).filter(({ status }) => status === 'DELIVERED')
    if (told === undefined || forgot.length > 0) continue
    for (const { requestId } of delivered)
      if (requestId !== told)
        yield `4: ${user} was told of ${told} (${claims.get(told)?.status}) and has a coupon by ${requestId}`
  }
}

/** Real-time order: once SOLD_OUT was said and no stock came back, nobody who came later is accepted. */
function* soldOutStays({ operations, accepted, byKey, rest, forgot }: Case): Iterable<string> {
  const restocked = [...rest.restocked, ...forgot.map((ms) => ({ fromMs: ms, toMs: ms }))]
  const soldOut = operations
    .filter(({ answer }) => answer.outcome === 'refused' && answer.code === 'SOLD_OUT')
    .map(({ invoked_ms, completed_ms }) => ({
      fromMs: invoked_ms - soldOutHoldsMs - clocksApartMs,
      toMs: completed_ms!,
    }))
    .sort((a, b) => a.toMs - b.toMs)
  if (soldOut.length === 0) return
  for (const one of accepted) {
    if (one.answer.replayed || byKey.get(JSON.stringify([one.user, one.key]))!.some(isDoubtful)) continue
    // The latest word before it leaves the least time for stock to come back.
    const before = soldOut.findLast(({ toMs }) => toMs < one.invoked_ms)
    if (before === undefined) continue
    const untilMs = one.completed_ms + clocksApartMs
    if (!restocked.some(({ fromMs, toMs }) => toMs >= before.fromMs && fromMs <= untilMs))
      yield `order: ${one.user} was accepted after SOLD_OUT had been said, and no stock came back`
  }
}

const isDoubtful = ({ answer }: Operation) => answer.outcome === 'unknown'

/** Everyone who was told of an acceptance has a coupon, or a rejection with its reason. */
function* everyoneTold({ accepted, claims }: Case): Iterable<string> {
  const open = new Set<string>()
  for (const { user, answer } of accepted) {
    const claim = claims.get(answer.request_id)
    const ended =
      claim?.status === 'DELIVERED' || (claim?.status === 'REJECTED' && (claim.reason ?? '') !== '')
    if (!ended || claim.userId !== user) open.add(answer.request_id)
  }
  if (open.size > 0) yield `5: ${open.size} acceptances that were told have no end, such as ${[...open][0]}`
}

/** A coupon's request stands in Redis too, or its key would be accepted anew. */
function* recordsStand({ rest }: Case): Iterable<string> {
  const gone = rest.claims.filter(
    ({ status, requestId }) => status === 'DELIVERED' && !rest.recorded.has(requestId),
  )
  if (gone.length > 0) yield `4: Redis has no record of ${gone.length} delivered claims`
}
