import { Latencies } from '../measure/percentiles.ts'
import { HttpClient } from '../traffic/client.ts'
import { closedLoop, openLoop } from '../traffic/openLoop.ts'
import type { Contestant } from './contestant.ts'

const connections = 64
const latencyShare = 0.7
const latencySeconds = 1.5

export interface Throughput {
  /** Acceptances answered, with all connections always waiting. */
  readonly perSecond: number
  /** From when a claim was due, at 70 % of that. */
  readonly p99Ms: number
  readonly accepted: number
  /** Coupons that existed when the last answer came. */
  readonly couponsThen: number
}

/** How many claims a second it accepts while there is stock, each of another user, and how long one then takes. */
export async function measureThroughput(contestant: Contestant, seconds: number): Promise<Throughput> {
  const users = 40_000
  const opened = await contestant.open(users, users)
  const client = new HttpClient(opened.url, connections)
  let next = 0
  let accepted = 0
  const claim = async () => {
    const press = opened.presses[next++]
    if (press === undefined) throw new Error(`${users} users were too few`)
    const heard = opened.hear(press, await client.send(press.request))
    if (heard === 'yes') accepted++
    return heard
  }
  try {
    const began = performance.now()
    const until = began + seconds * 1_000
    await closedLoop(connections, connections, async () => {
      while (performance.now() < until && next < users) await claim()
    })
    const perSecond = (accepted * 1_000) / (performance.now() - began)
    const latencies = new Latencies()
    const rate = Math.max(20, perSecond * latencyShare)
    await openLoop(Math.min(users - next, Math.round(rate * latencySeconds)), rate, async (_, dueAt) => {
      await claim()
      latencies.record(performance.now() - dueAt)
    })
    const { coupons } = await opened.look(new Set())
    return { perSecond, p99Ms: latencies.at(99), accepted, couponsThen: coupons.length }
  } finally {
    client.close()
    await opened.close()
  }
}
