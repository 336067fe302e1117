import { setTimeout as pause } from 'node:timers/promises'
import { HttpClient } from '../traffic/client.ts'
import { type Judgement, judge } from './auditor.ts'
import type { Contestant, KillKind } from './contestant.ts'
import { sendCrowd } from './crowd.ts'

const connections = 64
const downMs = 1_000

interface Shape {
  readonly users: number
  readonly quota: number
  readonly perSecond: number
  /** The kill comes at a random instant between these. */
  readonly fromMs: number
  readonly toMs: number
  readonly patienceMs: number
}

/** A power cut takes a second of writes, so it comes later and finds more; stock is left when it comes. */
export const shapes: Readonly<Record<KillKind, Shape>> = {
  service: { users: 600, quota: 450, perSecond: 1_500, fromMs: 40, toMs: 300, patienceMs: 15_000 },
  consumer: { users: 600, quota: 450, perSecond: 1_500, fromMs: 40, toMs: 400, patienceMs: 15_000 },
  store: { users: 2_000, quota: 1_500, perSecond: 1_000, fromMs: 1_150, toMs: 1_350, patienceMs: 30_000 },
}

export interface Round extends Judgement {
  readonly kind: KillKind
  /** Users who heard yes. */
  readonly promised: number
  /** Told otherwise afterwards, with a reason. */
  readonly withdrawn: number
  readonly unanswered: number
  readonly coupons: number
  /** Something was still under way when patience ended: it is judged as it stood then. */
  readonly unrested: boolean
  /** The longest time without a yes, from the kill on and between two of them; the second of downtime is in it. */
  readonly outageMs: number
}

/**
 * A campaign, a crowd, one kill at a random instant while stock is left, a second of downtime; then everything comes
 * to rest, and is judged.
 */
export async function runRound(
  contestant: Contestant,
  kind: KillKind,
  random: () => number,
  shape: Shape = shapes[kind],
): Promise<Round> {
  const opened = await contestant.open(shape.quota, shape.users)
  const client = new HttpClient(opened.url, connections)
  try {
    const afterMs = shape.fromMs + random() * (shape.toMs - shape.fromMs)
    const fault = pause(afterMs).then(async () => {
      const killedAt = performance.now()
      const restart = await contestant.kill(kind)
      await pause(downMs)
      await restart()
      return killedAt
    })
    const [crowd, killedAt] = await Promise.all([sendCrowd(client, { ...opened, ...shape }), fault])
    const rested = await opened.rest().then(
      () => true,
      () => false,
    )
    const { coupons, remaining, withdrawn } = await opened.look(crowd.promised)
    const promised = [...crowd.promised].filter((user) => !withdrawn.has(user))
    return {
      kind,
      ...judge({ quota: shape.quota, promised, coupons, remaining }),
      promised: crowd.promised.size,
      withdrawn: withdrawn.size,
      unanswered: crowd.unanswered,
      coupons: coupons.length,
      unrested: !rested,
      outageMs: longestSilence(crowd.yesAt, killedAt),
    }
  } finally {
    client.close()
    await opened.close()
  }
}

function longestSilence(yesAt: readonly number[], from: number): number {
  const gaps = yesAt.slice(1).map((at, i) => (at > from ? at - yesAt[i]! : 0))
  return Math.round(Math.max(0, ...gaps))
}
