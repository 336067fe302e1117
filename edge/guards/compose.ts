import { bounds } from '../bounds.ts'
import type { Campaigns } from '../campaigns.ts'
import type { Log } from '../log.ts'
import { makeBlockList } from './blocks.ts'
import { ClaimGuard } from './claimGuard.ts'
import type { GuardBindings, GuardConfig } from './config.ts'
import type { DoorParts } from './door.ts'
import { IssueGuard } from './issueGuard.ts'
import { LocalLimits } from './localLimits.ts'
import { LocationLimit } from './location.ts'
import { ReadGuard } from './readGuard.ts'
import { openStore, SharedLimits } from './sharedLimits.ts'
import { makeTurnstile, noTurnstile } from './turnstile.ts'

export interface Guards {
  readonly claim: ClaimGuard
  readonly issue: IssueGuard
  readonly read: ReadGuard
}

/** The guards of one isolate. */
export function makeGuards(
  config: GuardConfig,
  { PLATFORM_RATE: platformRate, CAMPAIGN_RATE: campaignRate }: GuardBindings,
  campaigns: Campaigns,
  log: Log,
  clock: () => number,
): Guards {
  const { addressRequired, blocked, limits, store } = config
  const sampled = bounds.requestsPerLocationCount
  const door = (blockList = blocked): DoorParts => {
    const location = new LocationLimit(platformRate, sampled, log)
    return { addressRequired, blocked: blockList, location, clock }
  }
  return {
    claim: new ClaimGuard({
      door: door(),
      limits: new LocalLimits(limits.claim),
      location: new LocationLimit(campaignRate, sampled, log),
      campaigns,
    }),
    issue: new IssueGuard({
      door: door(),
      limits: new LocalLimits(limits.token),
      shared: new SharedLimits(limits.token),
      location: new LocationLimit(campaignRate, sampled, log),
      turnstile: config.turnstile === undefined ? noTurnstile : makeTurnstile(config.turnstile),
      openStore: () => openStore(store),
    }),
    // Whoever may not claim may still see what is theirs.
    read: new ReadGuard({ door: door(makeBlockList({})), limits: new LocalLimits(limits.read) }),
  }
}
