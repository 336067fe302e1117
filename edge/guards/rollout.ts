import type { Rollout } from '../../schema/guards.ts'
import { hash53 } from '../../schema/hash.ts'
import type { IneligibleReason } from './refused.ts'

/** What a rollout is decided by. Channel and version are the client's word: they steer, they don't protect. */
export interface RolloutFacts {
  readonly userId: string
  readonly campaignId: string
  /** Where the platform says the request comes from. */
  readonly region: string | undefined
  readonly channel: string | undefined
  readonly clientVersion: string | undefined
}

/** Why this request is outside of the rollout (CL17), or undefined. What is asked for and not known is outside. */
export function outsideOf(rollout: Rollout, facts: RolloutFacts): IneligibleReason | undefined {
  const { basis_points: share, regions, channels, client_version: version } = rollout
  if (regions !== undefined && !includes(regions, facts.region)) return 'REGION'
  if (channels !== undefined && !includes(channels, facts.channel)) return 'CHANNEL'
  if (version !== undefined && !isBetween(facts.clientVersion, version.min, version.max))
    return 'CLIENT_VERSION'
  if (share !== undefined && placeOf(facts.userId, facts.campaignId) >= share) return 'ROLLOUT'
  return undefined
}

/**
 * A user's place in a campaign's rollout, 0 … 9999: always the same, so a growing share only adds users; another
 * in each campaign, so it is not always the same users who come first; and not that of the bucket choice.
 */
export function placeOf(userId: string, campaignId: string): number {
  return hash53(userId, hash53(`rollout:${campaignId}`) | 0) % 10_000
}

function includes(list: readonly string[], value: string | undefined): boolean {
  return value !== undefined && list.includes(value)
}

const form = /^\d{1,6}(\.\d{1,6}){0,3}$/

function isBetween(version: string | undefined, min: string | undefined, max: string | undefined): boolean {
  if (version === undefined || !form.test(version)) return false
  return (
    (min === undefined || compareVersions(version, min) >= 0) &&
    (max === undefined || compareVersions(version, max) <= 0)
  )
}

/** By number, part for part; a missing part is 0. */
export function compareVersions(a: string, b: string): number {
  const left = a.split('.').map(Number)
  const right = b.split('.').map(Number)
  for (let i = 0; i < 4; i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}
