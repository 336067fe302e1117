import { type Address, parseAddress, type Tiers, tiersOf } from '../../schema/address.ts'
import type { Lifetime } from '../lifetime.ts'
import { type BlockList, isAddressBlocked } from './blocks.ts'
import type { LocalLimits } from './localLimits.ts'
import type { LocationLimit } from './location.ts'
import { notEligible, type Refused, rateLimited } from './refused.ts'

/** A request that was let in, and where it comes from. */
export interface Visit {
  readonly nowMs: number
  readonly address: Address | undefined
  readonly tiers: Tiers | undefined
}

export interface DoorParts {
  /** Whether a request without an address is refused: on the platform every request has one (case-E3). */
  readonly addressRequired: boolean
  readonly blocked: BlockList
  readonly location: LocationLimit
  clock(): number
}

/** The only header believed for an address: the platform sets it, whatever the client sent. */
export const addressHeader = 'CF-Connecting-IP'

/** What comes before anything else of a request is looked at: its address, the block list, the platform's limits. */
export function enter(
  parts: DoorParts,
  limits: LocalLimits,
  request: Request,
  lifetime: Lifetime,
): Visit | Refused {
  const nowMs = parts.clock()
  const text = request.headers.get(addressHeader)
  const address = text === null ? undefined : parseAddress(text)
  if (address === undefined && (parts.addressRequired || text !== null))
    return {
      code: 'INVALID_REQUEST',
      extras: { detail: 'The request’s address is not known: call us directly.' },
    }
  if (isAddressBlocked(parts.blocked, address)) return notEligible('DECLINED')
  const wait = limits.platform(nowMs) || parts.location.wait('platform', nowMs, parts.clock, lifetime)
  if (wait > 0) return rateLimited(wait)
  return { nowMs, address, tiers: address && tiersOf(address) }
}

export function isRefused<T extends object>(result: T | Refused): result is Refused {
  return 'code' in result
}
