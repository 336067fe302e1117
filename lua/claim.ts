import { claimChars, packTime, requestIdOf } from '../schema/acceptance.ts'
import { type Decision, decisionOf } from '../schema/decision.ts'
import { limits } from '../schema/limits.ts'
import { type Bucket, gateKey, logKey, usersKey } from './keys.ts'
import { ArbiterError, type ScriptRunner } from './runner.ts'
import { type Script, scripts } from './scripts.generated.ts'

/** One claim as it is sent to the arbiter. */
export interface ClaimArgs {
  userId: string
  /** 36 six-bit characters: rest of the request id 13, key 9, params 4, token 9, state letter. */
  packed: string
}

export interface Verdict {
  decision: Decision
  /** Of the acceptance, for ACCEPTED and REPLAYED: a UUIDv7. */
  requestId?: string
  /** The same in the 21 characters of a record. */
  packedId?: string
}

export interface ClaimReply {
  epoch: number
  /** Stock left in this bucket after the call. */
  remaining: number
  leaseUntilMs: number
  /** The arbiter's clock. */
  nowMs: number
  startsAtMs: number
  endsAtMs: number
  /** When a claim that got BUSY should come back. */
  retryAfterMs: number
  /** One for each claim, in order. */
  verdicts: Verdict[]
}

/**
 * Decides 1 to 64 claims of one bucket in one atomic step (DESIGN §4).
 * @param nowMs the instant to decide at; without it the server's clock, which is what production uses.
 * @throws ArbiterError; nothing was decided unless its failure is `unknown`.
 */
export function claim(
  runner: ScriptRunner,
  bucket: Bucket,
  claims: readonly ClaimArgs[],
  nowMs?: number,
): Promise<ClaimReply> {
  return decide(scripts.claim, runner, bucket, claims, nowMs)
}

/** Records 1 to 64 ballot entries: decided like claims, but no stock is taken. Same errors as `claim`. */
export function enterBallot(
  runner: ScriptRunner,
  bucket: Bucket,
  entries: readonly ClaimArgs[],
  nowMs?: number,
): Promise<ClaimReply> {
  return decide(scripts.enter, runner, bucket, entries, nowMs)
}

async function decide(
  script: Script,
  runner: ScriptRunner,
  bucket: Bucket,
  claims: readonly ClaimArgs[],
  nowMs: number | undefined,
): Promise<ClaimReply> {
  const n = claims.length
  if (n < 1 || n > limits.claimsPerCallMax)
    throw new RangeError(`a call has 1 to ${limits.claimsPerCallMax} claims`)
  const args = new Array<string>(1 + 2 * n)
  args[0] = nowMs === undefined ? '' : String(nowMs)
  for (let i = 0; i < n; i++) {
    const { userId, packed } = claims[i]!
    if (packed.length !== claimChars) throw new RangeError(`a packed claim has ${claimChars} characters`)
    args[1 + i] = userId
    args[1 + n + i] = packed
  }
  const reply = await runner.run(script, [gateKey(bucket), usersKey(bucket), logKey(bucket)], args)
  return parseClaimReply(reply, claims)
}

/** @throws ArbiterError `garbled` on anything that the script can't have said. */
export function parseClaimReply(reply: string, claims: readonly ClaimArgs[]): ClaimReply {
  const [head, letters, replays] = reply.split('\n')
  const numbers = head?.split(' ').map(Number) ?? []
  if (
    letters?.length !== claims.length ||
    replays === undefined ||
    numbers.length !== 7 ||
    numbers.some(Number.isNaN)
  )
    throw new ArbiterError('garbled', 'claim: unexpected reply')
  const [epoch, remaining, leaseUntilMs, nowMs, startsAtMs, endsAtMs, retryAfterMs] = numbers as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const stamp = packedTime(nowMs)
  let replay = 0
  const verdicts = claims.map(({ packed }, i): Verdict => {
    const decision = decisionOf(letters[i]!)
    if (decision !== 'ACCEPTED' && decision !== 'REPLAYED') return { decision }
    let packedId = stamp + packed.slice(0, 13)
    if (decision === 'REPLAYED') {
      packedId = replays.slice(replay, replay + 21)
      replay += 21
    }
    return { decision, requestId: requestIdOf(packedId), packedId }
  })
  if (replay !== replays.length) throw new ArbiterError('garbled', 'claim: replays do not match')
  return { epoch, remaining, leaseUntilMs, nowMs, startsAtMs, endsAtMs, retryAfterMs, verdicts }
}

let lastMs = -1
let lastStamp = ''
/** The calls of one millisecond share their stamp. */
function packedTime(ms: number): string {
  if (ms !== lastMs) {
    lastStamp = packTime(ms)
    lastMs = ms
  }
  return lastStamp
}
