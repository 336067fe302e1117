import { type Bucket, drainGroup, gateKey, logKey, movesKey, usersKey } from './keys.ts'
import { expectWord } from './reply.ts'
import type { ScriptRunner } from './runner.ts'
import { scripts } from './scripts.generated.ts'
import { dripField, type GateConfig, paceField } from './stock.ts'

/**
 * Closes a bucket for a rebuild: its gate and records go, its log stays to be drained first.
 * @returns how many entries the log still holds.
 */
export async function beginRebuild(runner: ScriptRunner, bucket: Bucket): Promise<number> {
  const keys = [gateKey(bucket), usersKey(bucket), logKey(bucket)]
  return Number(await runner.run(scripts.rebuild_begin, keys, [drainGroup]))
}

/** Puts back users' records (user → all packed records of that user). `open`: there is a gate; nothing changed. */
export async function loadRecords(
  runner: ScriptRunner,
  bucket: Bucket,
  records: readonly (readonly [userId: string, packed: string])[],
): Promise<'loaded' | 'open'> {
  if (records.length === 0) return 'loaded'
  const reply = await runner.run(scripts.rebuild_load, [gateKey(bucket), usersKey(bucket)], records.flat())
  return expectWord(reply, ['loaded', 'open'], 'rebuild_load')
}

/** What the ledger says of a bucket. `allocated = remaining + accepted − returned`. */
export interface RebuiltStock {
  epoch: number
  allocated: number
  remaining: number
  accepted: number
  settled: number
  returned: number
  final: boolean
  /** How many users' records were loaded: with fewer, Redis lost some again, and the bucket stays closed. */
  users?: number
  /** Id of the last log entry that the ledger knows: a log that begins anew goes on after it. */
  watermark?: string
  /** Transfers that touched this bucket: id and signed amount. */
  moves: readonly (readonly [id: string, signedAmount: number])[]
}

/**
 * Opens the closed bucket, without a lease. `unsettled`: the log has entries that must be drained first.
 * `incomplete`: records are missing, the rebuild must begin anew.
 */
export async function finishRebuild(
  runner: ScriptRunner,
  bucket: Bucket,
  config: GateConfig,
  stock: RebuiltStock,
): Promise<'rebuilt' | 'open' | 'unsettled' | 'incomplete'> {
  if (stock.allocated !== stock.remaining + stock.accepted - stock.returned || stock.remaining < 0)
    throw new RangeError('the stock does not add up')
  const numbers = [stock.allocated, stock.remaining, stock.accepted, stock.settled, stock.returned]
  const reply = await runner.run(
    scripts.rebuild_finish,
    [gateKey(bucket), usersKey(bucket), logKey(bucket), movesKey(bucket)],
    [
      config.state,
      String(stock.epoch),
      String(config.configVersion),
      String(config.ruleVersion),
      String(config.startsAtMs),
      String(config.endsAtMs),
      String(config.perUserLimit),
      ...numbers.map(String),
      stock.final ? '1' : '0',
      dripField(config),
      paceField(config),
      stock.users === undefined ? '' : String(stock.users),
      stock.watermark ?? '',
      ...stock.moves.flatMap(([id, amount]) => [id, amount < 0 ? String(amount) : `+${amount}`]),
    ],
  )
  return expectWord(reply, ['rebuilt', 'open', 'unsettled', 'incomplete'], 'rebuild_finish')
}
