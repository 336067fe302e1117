import type { Bucket } from '../../lua/keys.ts'
import { configure, type GateConfig, type GateState, prime } from '../../lua/stock.ts'
import type { Drip, Pace } from '../../schema/rules.ts'
import { arrayOf } from '../claim/issue.sql.ts'
import { type CommandContext, type Done, replaceAnswer } from '../command.ts'
import type { Deps } from '../deps.ts'
import { splitExactly } from '../stock/split.ts'
import type { CampaignAnswer, Gates } from './shapes.ts'
import { type Transition, type TransitionInput, transit } from './transition.ts'

/**
 * Keeps the gates in Redis at what Postgres says. Postgres remembers of each bucket whether its gate was primed and
 * which configuration it confirmed, so what lags is found without asking Redis, and telling it again is harmless:
 * a crash between commit and gate is healed by the next round.
 */

export type GateDeps = Pick<Deps, 'db' | 'runner' | 'clock' | 'log'>

/** A bucket's row and what its campaign says of its gate. */
export interface GateRow {
  campaign_id: string
  bucket: number
  state: GateState
  config_version: number
  rule_version: number
  starts_at: Date
  ends_at: Date
  per_user_limit: number
  bucket_count: number
  drip: Drip | null
  pace: Pace | null
}

interface Lagging extends GateRow {
  allocated: number
  epoch: number
  primed: boolean
}

/** Gates told at a time: they share a connection, whose queue should leave room for the lease's renewals. */
const chunkSize = 64
/** Buckets of one round; the next round goes on. */
const roundMax = 4_096

/**
 * Primes gates that never were, and configures those that lag. Called by the commands and by the guardian's
 * rounds, the first of which is at start. A failing gate does not keep the others: it is logged and stays for the next round.
 * @returns how many gates still lag.
 */
export async function reconcileGates(deps: GateDeps, campaignId?: string): Promise<number> {
  const lagging = await laggingGates(deps, campaignId)
  let left = 0
  for (let at = 0; at < lagging.length; at += chunkSize) {
    const chunk = lagging.slice(at, at + chunkSize)
    const told = await Promise.all(chunk.map((gate) => tell(deps, gate)))
    left += told.filter((reachedAtMs) => reachedAtMs === undefined).length
    await remember(
      deps,
      chunk.flatMap((gate, i) => (told[i] === undefined ? [] : [{ gate, reachedAtMs: told[i] }])),
    )
  }
  return left
}

async function laggingGates({ db }: GateDeps, campaignId: string | undefined): Promise<Lagging[]> {
  const { sql } = db.admin
  return sql<Lagging[]>`
    SELECT b.campaign_id, b.bucket, b.allocated, b.epoch, b.primed_at IS NOT NULL AS primed, c.state,
           c.config_version, c.rule_version, c.starts_at, c.ends_at, c.per_user_limit, c.bucket_count, c.drip, c.pace
    FROM buckets b JOIN campaigns c USING (campaign_id)
    WHERE (b.primed_at IS NULL OR b.config_version < c.config_version)
      AND c.state IN ('ACTIVE', 'PAUSED', 'ENDED', 'VOIDED')
      ${campaignId === undefined ? sql`` : sql`AND b.campaign_id = ${campaignId}`}
    ORDER BY b.campaign_id, b.bucket
    LIMIT ${roundMax}`
}

/** What a bucket's gate is to know of its campaign. */
export function gateConfigOf(gate: GateRow): GateConfig {
  return {
    configVersion: gate.config_version,
    state: gate.state,
    ruleVersion: gate.rule_version,
    startsAtMs: gate.starts_at.getTime(),
    endsAtMs: gate.ends_at.getTime(),
    perUserLimit: gate.per_user_limit,
    ...shareOf(gate),
  }
}

/** A bucket's part of the campaign's drip and pace: the parts add up to the whole. */
function shareOf({ bucket, bucket_count: count, drip, pace }: GateRow): Pick<GateConfig, 'drip' | 'pace'> {
  const part = (whole: number) => splitExactly(whole, count)[bucket]!
  return {
    ...(drip === null
      ? {}
      : {
          drip: {
            initial: part(drip.initial),
            atMs: Date.parse(drip.starts_at),
            everyMs: drip.every_ms,
            amount: part(drip.amount),
          },
        }),
    ...(pace === null ? {} : { pace: { perSecond: part(pace.per_second), burst: part(pace.burst) } }),
  }
}

/** When the gate was known to have this configuration or a newer one, ms; undefined: it was not reached. */
async function tell({ runner, log, clock }: GateDeps, gate: Lagging): Promise<number | undefined> {
  const bucket: Bucket = { campaignId: gate.campaign_id, bucket: gate.bucket }
  const config = gateConfigOf(gate)
  try {
    if (!gate.primed) {
      const stock = { epoch: gate.epoch, amount: gate.allocated, final: gate.bucket_count === 1 }
      const reply = await prime(runner, bucket, config, stock)
      if (reply === 'primed') return clock()
      if (reply === 'conflict') {
        log.error({ bucket }, 'a gate can’t be primed: acceptances are there already; it needs a rebuild')
        return undefined
      }
    }
    const reply = await configure(runner, bucket, config)
    if (reply === 'not_ready') log.warn({ bucket }, 'a gate that was primed is gone; it needs a rebuild')
    return reply === 'not_ready' ? undefined : clock()
  } catch (error) {
    log.warn({ err: error, bucket }, 'a gate could not be told; it will be tried again')
    return undefined
  }
}

interface Told {
  gate: Lagging
  reachedAtMs: number
}

async function remember({ db }: GateDeps, told: readonly Told[]): Promise<void> {
  if (told.length === 0) return
  const instants = told.map(({ reachedAtMs }) => new Date(reachedAtMs).toISOString())
  await db.admin.sql`
    UPDATE buckets b
    SET primed_at = coalesce(b.primed_at, told.reached_at),
        config_reached_at = CASE WHEN told.config_version > b.config_version THEN told.reached_at
          ELSE b.config_reached_at END,
        config_version = greatest(b.config_version, told.config_version)
    FROM unnest(${told.map(({ gate }) => gate.campaign_id)}::text[], ${told.map(({ gate }) => gate.bucket)}::int[],
                ${told.map(({ gate }) => gate.config_version)}::bigint[], ${arrayOf(instants)}::timestamptz[])
      AS told (campaign_id, bucket, config_version, reached_at)
    WHERE b.campaign_id = told.campaign_id AND b.bucket = told.bucket`
}

/** A configuration may change while it is being told; then the gates are told once more. */
const attempts = 3

interface GateReach {
  gates: Gates
  each: NonNullable<CampaignAnswer['buckets']>
}

/** Tells a campaign's gates at once, and says how far that came. */
async function tellGates(deps: GateDeps, campaignId: string): Promise<GateReach> {
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const left = await reconcileGates(deps, campaignId)
    const reach = await gatesOf(deps, campaignId)
    if (reach.gates.reached === reach.gates.buckets || left > 0) return reach
  }
  return gatesOf(deps, campaignId)
}

async function gatesOf({ db, clock }: GateDeps, campaignId: string): Promise<GateReach> {
  const rows = await db.admin.sql<{ bucket: number; reached_at: Date | null }[]>`
    SELECT b.bucket,
           CASE WHEN b.primed_at IS NOT NULL AND b.config_version >= c.config_version THEN coalesce(b.config_reached_at, b.primed_at) END
             AS reached_at
    FROM buckets b JOIN campaigns c USING (campaign_id) WHERE b.campaign_id = ${campaignId} ORDER BY b.bucket`
  const instants = rows.map((row) => row.reached_at)
  const reached = instants.filter((at) => at !== null)
  const last = reached.length > 0 ? Math.max(...reached.map((at) => at.getTime())) : clock()
  const whole = reached.length === rows.length
  return {
    gates: {
      buckets: rows.length,
      reached: reached.length,
      reached_at: whole ? new Date(last).toISOString() : null,
    },
    each: rows.map((row) => ({ bucket: row.bucket, closed_at: row.reached_at?.toISOString() ?? null })),
  }
}

/** A change that the gates must act by: its answer says when the last of them does, and when each of them closed. */
export async function answerWhenTold(
  ctx: CommandContext,
  action: string,
  done: Done<CampaignAnswer>,
): Promise<Done<CampaignAnswer>> {
  const { id: campaignId, state } = done.answer
  if (done.answer.gates?.reached_at) return done
  const { gates, each } = await tellGates(ctx.deps, campaignId)
  const closed = state === 'ACTIVE' ? {} : { closed_at: gates.reached_at, buckets: each }
  const answer = { ...done.answer, gates, ...closed }
  await replaceAnswer(ctx, { action, target: campaignId }, answer)
  return { ...done, answer }
}

export async function transitAndTell(
  ctx: CommandContext,
  input: TransitionInput,
  transition: Transition,
): Promise<Done<CampaignAnswer>> {
  return answerWhenTold(ctx, `campaign.${transition.verb}`, await transit(ctx, input, transition))
}
