import { createHash, randomUUID } from 'node:crypto'
import { and, eq } from 'drizzle-orm'
import { auditLog, idempotencyKeys } from '../schema/db/tables.ts'
import { IllegalTransition } from '../schema/states.ts'
import type { Pool } from './db.ts'
import type { Deps } from './deps.ts'
import { type Caller, forbidden, type Role } from './http/identity.ts'
import { Refused } from './refusal.ts'

/**
 * The frame of every command of an operator (GV4): the role is checked, the change, its audit row and its answer
 * by idempotency key stand in one transaction, and what is refused is recorded as well.
 */

export type Tx = Parameters<Parameters<Pool['orm']['transaction']>[0]>[0]

export interface CommandContext {
  readonly deps: Deps
  readonly caller: Caller
  /** The same key and input get the same answer, within this caller, action and target. */
  readonly idempotencyKey: string
}

export interface Command<Answer> {
  /** `thing.verb`, as it stands in the audit log. */
  action: string
  /** Id of the thing; '' where the command makes it. */
  target: string
  roles: readonly Role[]
  /** What the caller asks, without preconditions: the key may be used again only for the same. */
  input: unknown
  reason: string | undefined
  run(tx: Tx, now: Date): Promise<Outcome<Answer>>
}

export interface Outcome<Answer> {
  answer: Answer
  /** Id of the thing, where the command made it. */
  target?: string
  before?: unknown
  after: unknown
}

export interface Done<Answer> {
  answer: Answer
  /** The command had been executed before under this key. */
  replayed: boolean
}

/** What is attempted, for the permission and the record of its refusal. */
export type Attempt = Pick<Command<unknown>, 'action' | 'target' | 'roles'>

/**
 * The permission alone, for before anything else of the request is looked at.
 * @throws Refused FORBIDDEN, recorded
 */
export async function authorise(deps: Deps, caller: Caller, attempt: Attempt): Promise<void> {
  if (caller.role !== undefined && attempt.roles.includes(caller.role)) return
  const refusal = forbidden(attempt.roles)
  await recordRefusal(deps, caller, attempt, refusal)
  throw refusal
}

/** @throws Refused, recorded; nothing was changed then. */
export async function execute<Answer>(ctx: CommandContext, command: Command<Answer>): Promise<Done<Answer>> {
  try {
    const { role } = ctx.caller
    if (role === undefined || !command.roles.includes(role)) throw forbidden(command.roles)
    return await ctx.deps.db.admin.orm.transaction((tx) => executeOnce(tx, ctx, role, command))
  } catch (error) {
    const refusal =
      error instanceof IllegalTransition
        ? new Refused('CONFLICT', { detail: `It is ${error.from}, which can’t become ${error.to}.` })
        : error
    if (refusal instanceof Refused) await recordRefusal(ctx.deps, ctx.caller, command, refusal)
    throw refusal
  }
}

async function executeOnce<Answer>(
  tx: Tx,
  ctx: CommandContext,
  role: Role,
  command: Command<Answer>,
): Promise<Done<Answer>> {
  const now = new Date(ctx.deps.clock())
  const slot = slotOf(ctx, command)
  const bodyHash = hashOf(command.input)
  // A second request with this key waits here until the first has ended, and then finds its answer (case-B3).
  const taken = await tx
    .insert(idempotencyKeys)
    .values({ ...slot, bodyHash, status: 0, answer: {}, createdAt: now })
    .onConflictDoNothing()
    .returning({ key: idempotencyKeys.key })
  if (taken.length === 0) return { answer: await earlierAnswer<Answer>(tx, slot, bodyHash), replayed: true }

  const outcome = await command.run(tx, now)
  await tx.insert(auditLog).values({
    ...auditOf(ctx.caller, command, now),
    role,
    target: outcome.target ?? command.target,
    outcome: 'done',
    reason: command.reason ?? null,
    before: outcome.before ?? null,
    after: outcome.after,
  })
  await tx.update(idempotencyKeys).set({ status: 200, answer: outcome.answer }).where(atSlot(slot))
  return { answer: outcome.answer, replayed: false }
}

async function earlierAnswer<Answer>(tx: Tx, slot: Slot, bodyHash: string): Promise<Answer> {
  const [earlier] = await tx.select().from(idempotencyKeys).where(atSlot(slot))
  if (earlier === undefined) throw new Error('an idempotency key vanished')
  if (earlier.bodyHash !== bodyHash)
    throw new Refused('IDEMPOTENCY_MISMATCH', {
      detail: 'Use a new Idempotency-Key for a different request.',
    })
  return earlier.answer as Answer
}

/** Makes an answer that a later step completed the one that replays get. */
export async function replaceAnswer(
  ctx: CommandContext,
  command: Pick<Command<unknown>, 'action' | 'target'>,
  answer: unknown,
): Promise<void> {
  await ctx.deps.db.admin.orm
    .update(idempotencyKeys)
    .set({ answer })
    .where(atSlot(slotOf(ctx, command)))
}

/** Refused attempts are as telling as successful ones (case-L14). They leave no answer: the key stays free. */
async function recordRefusal(
  deps: Deps,
  caller: Caller,
  attempt: Attempt & Partial<Pick<Command<unknown>, 'reason' | 'input'>>,
  refusal: Refused,
): Promise<void> {
  await deps.db.admin.orm.insert(auditLog).values({
    ...auditOf(caller, attempt, new Date(deps.clock())),
    role: caller.role ?? 'none',
    outcome: 'refused',
    reason: attempt.reason ?? null,
    after: { code: refusal.code, detail: refusal.message, input: attempt.input },
  })
}

interface Slot {
  actor: string
  route: string
  key: string
}

function slotOf(ctx: CommandContext, command: Pick<Command<unknown>, 'action' | 'target'>): Slot {
  return { actor: ctx.caller.actor, route: `${command.action} ${command.target}`, key: ctx.idempotencyKey }
}

function atSlot(slot: Slot) {
  return and(
    eq(idempotencyKeys.actor, slot.actor),
    eq(idempotencyKeys.route, slot.route),
    eq(idempotencyKeys.key, slot.key),
  )
}

function auditOf({ actor }: Caller, { action, target }: Attempt, at: Date) {
  return { auditId: randomUUID(), at, actor, action, target }
}

/** Of the value, not its spelling: the order of members does not matter. */
function hashOf(input: unknown): string {
  const text = JSON.stringify(input, (_, value: unknown) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  )
  return createHash('sha256').update(text).digest('base64url')
}
