import type { ScriptRunner } from '../../lua/runner.ts'
import { type BucketSnapshot, snapshot } from '../../lua/stock.ts'

/** They share a connection, whose queue should leave room for the lease's renewals. */
const gatesAtOnce = 64

/** All gates of a campaign, in order; undefined where there is none. @throws ArbiterError */
export async function readGates(
  runner: ScriptRunner,
  campaignId: string,
  bucketCount: number,
): Promise<(BucketSnapshot | undefined)[]> {
  const gates: (BucketSnapshot | undefined)[] = []
  for (let from = 0; from < bucketCount; from += gatesAtOnce) {
    const size = Math.min(gatesAtOnce, bucketCount - from)
    const part = Array.from({ length: size }, (_, i) => snapshot(runner, { campaignId, bucket: from + i }))
    gates.push(...(await Promise.all(part)))
  }
  return gates
}
