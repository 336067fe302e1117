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
}

/** A power cut takes a second of writes, so it comes later and finds more; stock is left when it comes. */
export const shapes: Readonly<Record<KillKind, Shape>> = {
  service: { users: 600, quota: 450, perSecond: 1_500, fromMs: 40, toMs: 300 },
  consumer: { users: 600, quota: 450, perSecond: 1_500, fromMs: 40, toMs: 400 },
  store: { users: 2_000, quota: 1_500, perSecond: 1_000, fromMs: 1_150, toMs: 1_350 },
}

export interface Round extends Judgement {
  readonly kind: KillKind
  /** Presses that heard yes, and users who did. */
  readonly yes: number
  readonly promised: number
  /** Told otherwise afterwards, with a reason. */
  readonly withdrawn: number
  readonly unanswered: number
  readonly coupons: number
  readonly killedAtMs: number
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
    const killedAtMs = Math.round(shape.fromMs + random() * (shape.toMs - shape.fromMs))
    const fault = pause(killedAtMs).then(async () => {
      const restart = await contestant.kill(kind)
      await pause(downMs)
      await restart()
    })
    const [crowd] = await Promise.all([sendCrowd(client, { ...opened, ...shape }), fault])
    await opened.rest()
    const { coupons, remaining, withdrawn } = await opened.look(crowd.promised)
    const promised = [...crowd.promised].filter((user) => !withdrawn.has(user))
    return {
      kind,
      ...judge({ quota: shape.quota, promised, coupons, remaining }),
      yes: crowd.yes,
      promised: crowd.promised.size,
      withdrawn: withdrawn.size,
      unanswered: crowd.unanswered,
      coupons: coupons.length,
      killedAtMs,
    }
  } finally {
    client.close()
    await opened.close()
  }
}
