import type { Bucket } from '../../lua/keys.ts'
import { configure, type GateConfig, type GateState, prime } from '../../lua/stock.ts'
import { type CommandContext, type Done, replaceAnswer } from '../command.ts'
import type { Deps } from '../deps.ts'
import type { CampaignAnswer, Gates } from './shapes.ts'
import { type Transition, type TransitionInput, transit } from './transition.ts'

/**
 * Keeps the gates in Redis at what Postgres says. Postgres remembers of each bucket whether its gate was primed and
 * which configuration it confirmed, so what lags is found without asking Redis, and telling it again is harmless:
 * a crash between commit and gate is healed by the next round.
 */

export type GateDeps = Pick<Deps, 'db' | 'runner' | 'clock' | 'log'>

interface Lagging {
  campaign_id: string
  bucket: number
  allocated: number
  epoch: number
  primed: boolean
  state: GateState
  config_version: number
  rule_version: number
  starts_at: Date
  ends_at: Date
  per_user_limit: number
  bucket_count: number
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
    left += told.filter((reached) => !reached).length
    await remember(
      deps,
      chunk.filter((_, i) => told[i]),
    )
  }
  return left
}

async function laggingGates({ db }: GateDeps, campaignId: string | undefined): Promise<Lagging[]> {
  const { sql } = db.admin
  return sql<Lagging[]>`
    SELECT b.campaign_id, b.bucket, b.allocated, b.epoch, b.primed_at IS NOT NULL AS primed, c.state,
           c.config_version, c.rule_version, c.starts_at, c.ends_at, c.per_user_limit, c.bucket_count
    FROM buckets b JOIN campaigns c USING (campaign_id)
    WHERE (b.primed_at IS NULL OR b.config_version < c.config_version)
      AND c.state IN ('ACTIVE', 'PAUSED', 'ENDED', 'VOIDED')
      ${campaignId === undefined ? sql`` : sql`AND b.campaign_id = ${campaignId}`}
    ORDER BY b.campaign_id, b.bucket
    LIMIT ${roundMax}`
}

function configOf(gate: Lagging): GateConfig {
  return {
    configVersion: gate.config_version,
    state: gate.state,
    ruleVersion: gate.rule_version,
    startsAtMs: gate.starts_at.getTime(),
    endsAtMs: gate.ends_at.getTime(),
    perUserLimit: gate.per_user_limit,
  }
}

/** Whether the gate now has this configuration or a newer one. */
async function tell({ runner, log }: GateDeps, gate: Lagging): Promise<boolean> {
  const bucket: Bucket = { campaignId: gate.campaign_id, bucket: gate.bucket }
  const config = configOf(gate)
  try {
    if (!gate.primed) {
      const stock = { epoch: gate.epoch, amount: gate.allocated, final: gate.bucket_count === 1 }
      const reply = await prime(runner, bucket, config, stock)
      if (reply === 'primed') return true
      if (reply === 'conflict') {
        log.error({ bucket }, 'a gate can’t be primed: acceptances are there already; it needs a rebuild')
        return false
      }
    }
    const reply = await configure(runner, bucket, config)
    if (reply === 'not_ready') log.warn({ bucket }, 'a gate that was primed is gone; it needs a rebuild')
    return reply !== 'not_ready'
  } catch (error) {
    log.warn({ err: error, bucket }, 'a gate could not be told; it will be tried again')
    return false
  }
}

async function remember({ db, clock }: GateDeps, gates: Lagging[]): Promise<void> {
  if (gates.length === 0) return
  const { sql } = db.admin
  await sql`
    UPDATE buckets b
    SET primed_at = coalesce(b.primed_at, ${new Date(clock())}),
        config_version = greatest(b.config_version, told.config_version)
    FROM unnest(${gates.map((gate) => gate.campaign_id)}::text[], ${gates.map((gate) => gate.bucket)}::int[],
                ${gates.map((gate) => gate.config_version)}::bigint[]) AS told (campaign_id, bucket, config_version)
    WHERE b.campaign_id = told.campaign_id AND b.bucket = told.bucket`
}

/** A configuration may change while it is being told; then the gates are told once more. */
const attempts = 3

/** Tells a campaign's gates at once, and says how far that came. */
export async function tellGates(deps: GateDeps, campaignId: string): Promise<Gates> {
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const left = await reconcileGates(deps, campaignId)
    const gates = await gatesOf(deps, campaignId)
    if (gates.reached === gates.buckets || left > 0) return gates
  }
  return gatesOf(deps, campaignId)
}

async function gatesOf({ db, clock }: GateDeps, campaignId: string): Promise<Gates> {
  const [row] = await db.admin.sql<{ buckets: number; reached: number }[]>`
    SELECT count(*) AS buckets,
           count(*) FILTER (WHERE b.primed_at IS NOT NULL AND b.config_version >= c.config_version) AS reached
    FROM buckets b JOIN campaigns c USING (campaign_id) WHERE b.campaign_id = ${campaignId}`
  const { buckets, reached } = row!
  return { buckets, reached, reached_at: reached === buckets ? new Date(clock()).toISOString() : null }
}

/** A transition that the gates must act by: its answer says when the last of them does. */
export async function transitAndTell(
  ctx: CommandContext,
  input: TransitionInput,
  transition: Transition,
): Promise<Done<CampaignAnswer>> {
  const done = await transit(ctx, input, transition)
  if (done.answer.gates?.reached_at) return done
  const answer = { ...done.answer, gates: await tellGates(ctx.deps, input.campaignId) }
  await replaceAnswer(ctx, { action: `campaign.${transition.verb}`, target: input.campaignId }, answer)
  return { ...done, answer }
}
