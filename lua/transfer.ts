import { type Bucket, gateKey, movesKey } from './keys.ts'
import { expectParts } from './reply.ts'
import type { ScriptRunner } from './runner.ts'
import { type Script, scripts } from './scripts.generated.ts'

/** `already`: this transfer was done before, with this amount; nothing changed now. */
export type Move = { outcome: 'moved' | 'already'; amount: number } | { outcome: 'not_ready' }

/** Takes at most `most` unsold coupons out of a bucket, once per transfer id. What was taken may be 0. */
export function withdraw(
  runner: ScriptRunner,
  bucket: Bucket,
  transferId: string,
  most: number,
): Promise<Move> {
  return move(scripts.withdraw, runner, bucket, transferId, most)
}

/** Puts coupons into a bucket, once per transfer id. */
export function deposit(
  runner: ScriptRunner,
  bucket: Bucket,
  transferId: string,
  amount: number,
): Promise<Move> {
  return move(scripts.deposit, runner, bucket, transferId, amount)
}

async function move(
  script: Script,
  runner: ScriptRunner,
  bucket: Bucket,
  transferId: string,
  amount: number,
): Promise<Move> {
  if (!Number.isSafeInteger(amount) || amount < 0) throw new RangeError('an amount is a whole number from 0')
  const reply = await runner.run(script, [gateKey(bucket), movesKey(bucket)], [transferId, String(amount)])
  if (reply === 'not_ready') return { outcome: 'not_ready' }
  const [outcome, moved] = expectParts(reply, 2, script.name)
  return { outcome: outcome === 'already' ? 'already' : 'moved', amount: Number(moved) }
}
