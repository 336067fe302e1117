import { type Acceptance, packRequestId, type RecordState, unpackRecords } from '../schema/acceptance.ts'
import type { CampaignState } from '../schema/states.ts'
import { type Bucket, drainGroup, gateKey, logKey, usersKey } from './keys.ts'
import { expectParts, expectWord } from './reply.ts'
import type { ScriptRunner } from './runner.ts'
import { scripts } from './scripts.generated.ts'

/** States in which a campaign has a gate. */
export type GateState = Extract<CampaignState, 'ACTIVE' | 'PAUSED' | 'ENDED' | 'VOIDED'>

/** What the gate knows of a campaign's rules; each change carries a higher `configVersion`. */
export interface GateConfig {
  configVersion: number
  state: GateState
  ruleVersion: number
  startsAtMs: number
  endsAtMs: number
  perUserLimit: number
  /** Released over time: `initial` at once, and `amount` at `atMs` and every `everyMs` after it. */
  drip?: { initial: number; atMs: number; everyMs: number; amount: number }
  /** At most so many acceptances a second, with this burst. */
  pace?: { perSecond: number; burst: number }
}

export const dripField = (config: GateConfig) =>
  config.drip ? `${config.drip.initial}:${config.drip.atMs}:${config.drip.everyMs}:${config.drip.amount}` : ''
export const paceField = (config: GateConfig) =>
  config.pace ? `${config.pace.perSecond}:${config.pace.burst}` : ''

/**
 * Opens a bucket's gate with its stock, without a lease. Again: `already`, nothing changes.
 * `conflict`: the gate is gone but acceptances are there; only a rebuild may open it.
 */
export async function prime(
  runner: ScriptRunner,
  bucket: Bucket,
  config: GateConfig,
  stock: { epoch: number; amount: number; final: boolean },
): Promise<'primed' | 'already' | 'conflict'> {
  const reply = await runner.run(
    scripts.prime,
    [gateKey(bucket), usersKey(bucket), logKey(bucket)],
    [
      drainGroup,
      config.state,
      String(stock.epoch),
      String(config.configVersion),
      String(config.ruleVersion),
      String(config.startsAtMs),
      String(config.endsAtMs),
      String(config.perUserLimit),
      String(stock.amount),
      stock.final ? '1' : '0',
      dripField(config),
      paceField(config),
    ],
  )
  return expectWord(reply, ['primed', 'already', 'conflict'], 'prime')
}

/** Pause, resume, end, void, new window or rule version. Older versions are ignored. */
export async function configure(
  runner: ScriptRunner,
  bucket: Bucket,
  config: GateConfig,
): Promise<'applied' | 'same' | 'stale' | 'not_ready'> {
  const reply = await runner.run(
    scripts.configure,
    [gateKey(bucket)],
    [
      String(config.configVersion),
      config.state,
      String(config.ruleVersion),
      String(config.startsAtMs),
      String(config.endsAtMs),
      String(config.perUserLimit),
      dripField(config),
      paceField(config),
    ],
  )
  return expectWord(reply, ['applied', 'same', 'stale', 'not_ready'], 'configure')
}

export interface Lease {
  nowMs: number
  epoch: number
  leaseUntilMs: number
  remaining: number
  accepted: number
  settled: number
  configVersion: number
  state: GateState
}

/**
 * Lets the bucket accept for `leaseMs` from now (0 ends its lease). `final`: no other bucket of the campaign has
 * stock, so an empty bucket says SOLD_OUT instead of BUSY. Undefined: there is no gate.
 */
export async function renewLease(
  runner: ScriptRunner,
  bucket: Bucket,
  leaseMs: number,
  final: boolean,
  nowMs?: number,
): Promise<Lease | undefined> {
  const reply = await runner.run(
    scripts.renew_lease,
    [gateKey(bucket)],
    [nowMs === undefined ? '' : String(nowMs), String(leaseMs), final ? '1' : '0'],
  )
  if (reply === 'not_ready') return undefined
  const part = expectParts(reply, 8, 'renew_lease')
  return {
    nowMs: Number(part[0]),
    epoch: Number(part[1]),
    leaseUntilMs: Number(part[2]),
    remaining: Number(part[3]),
    accepted: Number(part[4]),
    settled: Number(part[5]),
    configVersion: Number(part[6]),
    state: part[7] as GateState,
  }
}

/** One claim's outcome, to be marked in its user's record. */
export interface Settlement {
  userId: string
  requestId: string
  state: Extract<RecordState, 'D' | 'X' | 'V'>
}

/**
 * After the ledger's commit: marks records, acknowledges and deletes the entries. Safe to repeat.
 * `missing` claims have no record in Redis any more (it lost them); the ledger has them.
 */
export async function settle(
  runner: ScriptRunner,
  bucket: Bucket,
  entryIds: readonly string[],
  settlements: readonly Settlement[],
): Promise<{ settled: number; missing: number }> {
  const args = [drainGroup, String(entryIds.length), ...entryIds]
  for (const { userId, requestId, state } of settlements) args.push(userId, packRequestId(requestId), state)
  const reply = await runner.run(scripts.settle, [gateKey(bucket), usersKey(bucket), logKey(bucket)], args)
  const part = expectParts(reply, 2, 'settle')
  return { settled: Number(part[0]), missing: Number(part[1]) }
}

/** Returns one request's stock, at most once, and never a delivered one's. */
export async function compensate(
  runner: ScriptRunner,
  bucket: Bucket,
  userId: string,
  requestId: string,
): Promise<'returned' | 'already' | 'delivered' | 'entry' | 'missing' | 'not_ready'> {
  const reply = await runner.run(
    scripts.compensate,
    [gateKey(bucket), usersKey(bucket)],
    [userId, packRequestId(requestId)],
  )
  return expectWord(
    reply,
    ['returned', 'already', 'delivered', 'entry', 'missing', 'not_ready'],
    'compensate',
  )
}

/** A bucket's terms of the stock identity at one instant: `allocated = remaining + accepted − returned`. */
export interface BucketSnapshot {
  nowMs: number
  state: GateState
  epoch: number
  configVersion: number
  ruleVersion: number
  allocated: number
  remaining: number
  accepted: number
  settled: number
  returned: number
  leaseUntilMs: number
  final: boolean
  users: number
  /** Entries in the log that are not settled yet. */
  entries: number
  /** Id of the last entry ever added: the ledger's rows up to it belong to this snapshot. */
  watermark: string
}

/** Undefined: there is no gate. */
export async function snapshot(
  runner: ScriptRunner,
  bucket: Bucket,
  nowMs?: number,
): Promise<BucketSnapshot | undefined> {
  const reply = await runner.run(
    scripts.snapshot,
    [gateKey(bucket), usersKey(bucket), logKey(bucket)],
    [nowMs === undefined ? '' : String(nowMs)],
  )
  if (reply === 'not_ready') return undefined
  const part = expectParts(reply, 15, 'snapshot')
  return {
    nowMs: Number(part[0]),
    state: part[1] as GateState,
    epoch: Number(part[2]),
    configVersion: Number(part[3]),
    ruleVersion: Number(part[4]),
    allocated: Number(part[5]),
    remaining: Number(part[6]),
    accepted: Number(part[7]),
    settled: Number(part[8]),
    returned: Number(part[9]),
    leaseUntilMs: Number(part[10]),
    final: part[11] === '1',
    users: Number(part[12]),
    entries: Number(part[13]),
    watermark: part[14]!,
  }
}

/** A user's acceptances in a bucket, oldest first; undefined when there is no gate. */
export async function inspect(
  runner: ScriptRunner,
  bucket: Bucket,
  userId: string,
): Promise<Acceptance[] | undefined> {
  const reply = await runner.run(scripts.inspect, [gateKey(bucket), usersKey(bucket)], [userId])
  return reply === 'not_ready' ? undefined : unpackRecords(reply)
}
