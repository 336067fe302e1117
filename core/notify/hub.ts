import { resultsChannel } from '../../lua/keys.ts'
import { causeOf } from '../claim/failures.ts'
import { backOff, within } from '../claim/patience.ts'
import type { Deps, Running } from '../deps.ts'
import { decodeEvents, type OutboxEvent, overlapMs } from './event.ts'
import { eventsSince } from './outbox.ts'

export type HubDeps = Pick<Deps, 'db' | 'subscription' | 'log' | 'clock'>

/** Who wants to hear of a user's events. */
export interface Follower {
  readonly userId: string
  hear(event: OutboxEvent): void
}

/**
 * Brings every event to the followers in this process, over one subscription for all of them. While the
 * subscription is broken nothing is heard; once it stands again, what was missed is read from the outbox.
 */
export interface Hub extends Running {
  follow(follower: Follower): void
  unfollow(follower: Follower): void
  /** How many followers this user has here. */
  countOf(userId: string): number
}

const pingEveryMs = 5_000
const pongWithinMs = 3_000
const usersPerQuery = 500

export function startHub(deps: HubDeps): Hub {
  const log = deps.log.child({ part: 'hub' })
  const followers = makeFollowers()
  const redis = deps.subscription()
  /** Everything told up to here was heard. */
  let heardUntilMs = deps.clock()
  /** Which connection this is; `whole` once it has heard all that was told before it. */
  let connection = 0
  let whole = false
  const abort = new AbortController()

  function hear(message: string): void {
    if (followers.isEmpty()) return
    for (const event of decodeEvents(message)) followers.tell(event)
  }

  /** After every connect: subscribe, then read what was told in between. */
  async function listen(mine: number): Promise<void> {
    await redis.subscribe(resultsChannel)
    const nowMs = deps.clock()
    for (let failed = 1; mine === connection; failed++) {
      try {
        await catchUp(deps, followers, heardUntilMs - overlapMs)
        if (mine !== connection) return
        heardUntilMs = nowMs
        whole = true
        return
      } catch (error) {
        log.warn({ cause: causeOf(error) }, 'missed results can’t be read yet')
        await backOff(failed, abort.signal)
      }
    }
  }

  async function checkAlive(): Promise<void> {
    const askedAtMs = deps.clock()
    await within(redis.ping(), pongWithinMs, 'the subscription')
    if (whole) heardUntilMs = askedAtMs
  }

  redis.on('close', () => {
    connection += 1
    whole = false
  })
  redis.on('ready', () => {
    listen(connection).catch((error) => {
      if (abort.signal.aborted) return
      log.warn({ cause: causeOf(error) }, 'subscribing to results failed and is tried again')
      redis.disconnect(true)
    })
  })
  redis.on('message', (_, message: string) => {
    try {
      hear(message)
    } catch (error) {
      log.error({ err: error }, 'a message on the results channel can’t be read')
    }
  })
  const timer = setInterval(() => {
    if (redis.status !== 'ready') return
    checkAlive().catch((error) => {
      if (abort.signal.aborted) return
      log.warn({ cause: causeOf(error) }, 'the subscription to results is dead and is made again')
      redis.disconnect(true)
    })
  }, pingEveryMs)

  return {
    follow: followers.add,
    unfollow: followers.remove,
    countOf: followers.countOf,
    async stop() {
      abort.abort()
      clearInterval(timer)
      redis.disconnect()
    },
  }
}

async function catchUp(deps: HubDeps, followers: Followers, sinceMs: number): Promise<void> {
  const users = followers.users()
  for (let at = 0; at < users.length; at += usersPerQuery)
    for (const event of await eventsSince(deps.db.query, users.slice(at, at + usersPerQuery), sinceMs))
      followers.tell(event)
}

interface Followers {
  add(follower: Follower): void
  remove(follower: Follower): void
  tell(event: OutboxEvent): void
  countOf(userId: string): number
  users(): string[]
  isEmpty(): boolean
}

/** Nearly every user has one stream; only those with more get a list, for there may be ten thousand of them. */
function makeFollowers(): Followers {
  const byUser = new Map<string, Follower | Follower[]>()
  return {
    add(follower) {
      const there = byUser.get(follower.userId)
      if (there === undefined) byUser.set(follower.userId, follower)
      else byUser.set(follower.userId, Array.isArray(there) ? [...there, follower] : [there, follower])
    },
    remove(follower) {
      const there = byUser.get(follower.userId)
      if (there === undefined) return
      const left = (Array.isArray(there) ? there : [there]).filter((one) => one !== follower)
      if (left.length === 0) byUser.delete(follower.userId)
      else byUser.set(follower.userId, left.length === 1 ? left[0]! : left)
    },
    tell(event) {
      const there = byUser.get(event.userId)
      if (there === undefined) return
      if (Array.isArray(there)) for (const one of there) one.hear(event)
      else there.hear(event)
    },
    countOf(userId) {
      const there = byUser.get(userId)
      if (there === undefined) return 0
      return Array.isArray(there) ? there.length : 1
    },
    users: () => [...byUser.keys()],
    isEmpty: () => byUser.size === 0,
  }
}
