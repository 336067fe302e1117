import { makeSlots } from '../claim/slots.ts'
import type { PrimedBucket } from '../guardian/identity.ts'
import type { Loss } from '../guardian/lease.ts'
import { type RebuildDeps, rebuildBucket } from './rebuild.ts'

/** Rebuilds at once in one process: each holds a connection to Postgres and all of its bucket's records. */
const atOnce = 2

/**
 * Rebuilds what Redis lost, by itself, where the ledger's numbers add up; of several processes that saw the loss one
 * does it. For the guardian: resolves with whether the bucket is to be checked again now.
 */
export function makeRecovery(deps: RebuildDeps): (bucket: PrimedBucket, loss: Loss) => Promise<boolean> {
  const slots = makeSlots(atOnce)
  return async (bucket, loss) => {
    const release = await slots.take()
    try {
      const { outcome } = await rebuildBucket(deps, {
        bucket,
        cause: loss,
        actor: 'guardian',
        role: 'system',
        expectedEpoch: bucket.epoch,
        force: false,
      })
      return outcome === 'rebuilt' || outcome === 'not_needed'
    } finally {
      release()
    }
  }
}
