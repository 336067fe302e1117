import { z } from '@hono/zod-openapi'
import type { Bucket } from '../../lua/keys.ts'
import { groupEntries, type LoggedClaim } from '../claim/batch.ts'
import { causeOf, failureOf } from '../claim/failures.ts'
import { arrayOf, type Tx } from '../claim/issue.sql.ts'
import { issue } from '../claim/issue.ts'
import type { RuleBook } from '../claim/rules.ts'
import { type CommandContext, type Done, execute } from '../command.ts'
import { type Pool, statementsOf } from '../db.ts'
import { Refused } from '../refusal.ts'
import { reviewRoles } from './command.ts'

/** Claims that could not be issued, with their original fields (IS7): listed, replayed, or put away. */

export const deadLetterShape = z
  .object({
    id: z.string(),
    campaign_id: z.string(),
    bucket: z.int(),
    entry_id: z.string().openapi({ description: 'Of the log entry in Redis.' }),
    position: z.int().openapi({ description: 'Which claim of its entry; -1: the whole entry.' }),
    cause: z.string(),
    fields: z.array(z.string()).openapi({ description: 'As the log had them.' }),
    state: z.enum(['OPEN', 'REPLAYED', 'DISCARDED']),
    created_at: z.iso.datetime(),
    closed_at: z.iso.datetime().nullable(),
  })
  .openapi('DeadLetter')
export type DeadLetterAnswer = z.infer<typeof deadLetterShape>

export interface DeadLetterRow extends Omit<DeadLetterAnswer, 'created_at' | 'closed_at'> {
  created_at: Date
  closed_at: Date | null
}

export function deadLetterAnswer(row: DeadLetterRow): DeadLetterAnswer {
  return {
    ...row,
    created_at: row.created_at.toISOString(),
    closed_at: row.closed_at?.toISOString() ?? null,
  }
}

export interface DeadLetterPage {
  limit: number
  after: { at: Date; id: string } | undefined
  state: DeadLetterAnswer['state']
  campaignId: string | undefined
}

/** Oldest first, by (created_at, id). */
export function listDeadLetters({ sql }: Pool, page: DeadLetterPage): Promise<DeadLetterRow[]> {
  const { after, state, campaignId } = page
  return sql<DeadLetterRow[]>`
    SELECT dead_letter_id AS id, campaign_id, bucket, entry_id, position, cause, fields, state,
      date_trunc('milliseconds', created_at) AS created_at, closed_at
    FROM dead_letters
    WHERE state = ${state}
      ${campaignId === undefined ? sql`` : sql`AND campaign_id = ${campaignId}`}
      ${
        after === undefined
          ? sql``
          : sql`AND (date_trunc('milliseconds', created_at), dead_letter_id::text) > (${after.at}, ${after.id})`
      }
    ORDER BY date_trunc('milliseconds', created_at), dead_letter_id::text
    LIMIT ${page.limit}`
}

export type DeadLetterVerb = 'replay' | 'discard'

export interface DeadLetterOutcome {
  id: string
  state: 'REPLAYED' | 'DISCARDED'
  issued: number
  rejected: number
  claims: { user_id: string; request_id: string }[]
}

/**
 * replay: issues what the letter holds as the drain would, in one transaction with its closing. discard: puts away a
 * letter in which no claim can be read; one with a claim is never discarded, since its user was told of an acceptance.
 * @throws Refused NOT_FOUND; CONFLICT when it is closed already, or when it still fails: with the cause.
 */
export function closeDeadLetter(
  ctx: CommandContext,
  ruleBook: RuleBook,
  input: { id: string; verb: DeadLetterVerb; reason: string | undefined },
): Promise<Done<DeadLetterOutcome>> {
  const { id, verb, reason } = input
  return execute<DeadLetterOutcome>(ctx, {
    action: `dead_letter.${verb}`,
    target: id,
    roles: reviewRoles.decide,
    input: { reason: reason ?? null },
    reason,
    async run(orm, now) {
      const tx = statementsOf(orm)
      const letter = await lockOpen(tx, id)
      const answer =
        verb === 'replay' ? await replay(tx, ruleBook, letter, ctx.caller.actor, now) : discard(letter)
      await tx`UPDATE dead_letters SET state = ${answer.state}, closed_at = ${now} WHERE dead_letter_id = ${id}`
      return { answer, before: { state: 'OPEN', cause: letter.cause }, after: answer }
    },
  })
}

async function lockOpen(tx: Tx, id: string): Promise<DeadLetterRow> {
  const [letter] = await tx<DeadLetterRow[]>`
    SELECT dead_letter_id AS id, campaign_id, bucket, entry_id, position, cause, fields, state, created_at, closed_at
    FROM dead_letters WHERE dead_letter_id = ${id} FOR UPDATE`
  if (letter === undefined) throw new Refused('NOT_FOUND', { detail: 'There is no such dead letter.' })
  if (letter.state !== 'OPEN') throw new Refused('CONFLICT', { detail: `It is ${letter.state} already.` })
  return letter
}

const readLetter = ({ entry_id: id, fields }: DeadLetterRow) => groupEntries([{ id, fields }])

function discard(letter: DeadLetterRow): DeadLetterOutcome {
  if (readLetter(letter).some(({ claims }) => claims.length > 0))
    throw new Refused('CONFLICT', {
      detail: 'A claim can be read in it, and its user was told of the acceptance. Replay it.',
    })
  return { id: letter.id, state: 'DISCARDED', issued: 0, rejected: 0, claims: [] }
}

async function replay(
  tx: Tx,
  ruleBook: RuleBook,
  letter: DeadLetterRow,
  by: string,
  now: Date,
): Promise<DeadLetterOutcome> {
  const bucket = { campaignId: letter.campaign_id, bucket: letter.bucket }
  const nowMs = now.getTime()
  // Within the command's transaction, not one of its own.
  const pool: Pick<Pool, 'transaction'> = { transaction: (work) => work(tx) }
  const rules: RuleBook = (campaignId, ruleVersion) => ruleBook(campaignId, ruleVersion, tx)
  const outcome: DeadLetterOutcome = { id: letter.id, state: 'REPLAYED', issued: 0, rejected: 0, claims: [] }
  for (const group of readLetter(letter)) {
    const [unreadable] = group.unreadable
    if (unreadable !== undefined) throw stillFails(unreadable.cause)
    const made = await issue({ pool, ruleBook: rules, clock: () => nowMs }, bucket, group, true).catch(
      (error: unknown) => {
        throw failureOf(error) === 'data' ? stillFails(causeOf(error)) : error
      },
    )
    if (made.undecidable.length > 0) throw stillFails('its request id belongs to another campaign’s claim')
    outcome.issued += made.issued
    outcome.rejected += made.rejected
    outcome.claims.push(
      ...group.claims.map(({ userId, requestId }) => ({ user_id: userId, request_id: requestId })),
    )
    await noteDecided(tx, bucket, group.claims, letter, by, now)
  }
  return outcome
}

const stillFails = (cause: string) =>
  new Refused('CONFLICT', { detail: `It still can’t be issued. Remove the cause first: ${cause}`, cause })

/** Its records in Redis are marked as held: they are told of the end as those of reviews are, also after a crash. */
async function noteDecided(
  tx: Tx,
  bucket: Bucket,
  claims: readonly LoggedClaim[],
  letter: DeadLetterRow,
  by: string,
  now: Date,
): Promise<void> {
  await tx`
    INSERT INTO reviews (user_id, request_id, campaign_id, bucket, cause, state, decided_by, opened_at, decided_at)
    SELECT c.user_id, c.request_id, ${bucket.campaignId}, ${bucket.bucket}::integer, 'held', 'DECIDED', ${by},
      ${letter.created_at}, ${now}
    FROM unnest(
      ${arrayOf(claims.map(({ userId }) => userId))}::text[],
      ${arrayOf(claims.map(({ requestId }) => requestId))}::uuid[]
    ) AS i(user_id, request_id)
    JOIN claims c ON c.user_id = i.user_id AND c.request_id = i.request_id AND c.status IN ('DELIVERED', 'REJECTED')
    ON CONFLICT DO NOTHING`
}
