import type { Lifetime } from '../lifetime.ts'
import { type DoorParts, enter, isRefused } from './door.ts'
import type { LocalLimits } from './localLimits.ts'
import { type Refused, rateLimited } from './refused.ts'

export interface ReadGuardParts {
  readonly door: DoorParts
  readonly limits: LocalLimits
}

/** Guards reads of what is a user's own, once it is known whose. */
export class ReadGuard {
  readonly #parts: ReadGuardParts

  constructor(parts: ReadGuardParts) {
    this.#parts = parts
  }

  admit(request: Request, userId: string, lifetime: Lifetime): Refused | undefined {
    const { door, limits } = this.#parts
    const visit = enter(door, limits, request, lifetime)
    if (isRefused(visit)) return visit
    const wait = limits.read(userId, visit.tiers, visit.nowMs)
    return wait > 0 ? rateLimited(wait) : undefined
  }
}
