import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Stack } from '../../stack/stack.ts'
import { startPatiently } from '../measure/patientStart.ts'
import type { PeerRecord } from '../record/record.ts'
import { sum } from './auditor.ts'
import type { Contestant, KillKind } from './contestant.ts'
import type { Design } from './designs/design.ts'
import { Ours } from './ours.ts'
import { Peer } from './peer.ts'
import { type Round, runRound } from './round.ts'
import { measureThroughput, type Throughput } from './throughput.ts'

export interface PeersWish {
  readonly designs: readonly Design[]
  readonly ours: boolean
  /** How often each kind of kill is done. */
  readonly times: Readonly<Record<KillKind, number>>
  /** Of the closed loop that gives the throughput. */
  readonly seconds: number
  /** Of the instants of kills. */
  random(): number
  say(line: string): void
  progress(line: string): void
}

/** After this, each further kind of kill is done once only, so that the whole comparison stays within minutes. */
const budgetMs = 35_000

/** Runs all that take part, one after the other: the peers on one stack's stores, ours as a stack of its own. */
export async function runPeers(wish: PeersWish, home: string): Promise<PeerRecord[]> {
  const records: PeerRecord[] = []
  if (wish.designs.length > 0) {
    await withStack(home, 'peers', ['postgres', 'redis'], async (stack) => {
      for (const design of wish.designs) records.push(await runOne(new Peer(design, stack), wish))
    })
  }
  if (wish.ours)
    await withStack(home, 'ours', undefined, async (stack) => {
      records.push(await runOne(new Ours(stack), wish))
    })
  return records
}

async function withStack(
  home: string,
  name: string,
  only: ('postgres' | 'redis')[] | undefined,
  work: (stack: Stack) => Promise<void>,
): Promise<void> {
  mkdirSync(home, { recursive: true, mode: 0o711 })
  const dir = join(home, `peers-${name}-${process.pid}`)
  const stack = await startPatiently({ dir, home, ...(only === undefined ? {} : { only }) })
  try {
    await work(stack)
  } finally {
    await stack.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

async function runOne(contestant: Contestant, wish: PeersWish): Promise<PeerRecord> {
  wish.progress(`${contestant.name}: throughput`)
  const ends = performance.now() + budgetMs
  try {
    const throughput = await measureThroughput(contestant, wish.seconds)
    const rounds: Round[] = []
    for (const kind of contestant.kinds) {
      for (let i = 1; i <= wish.times[kind] && (i === 1 || performance.now() < ends); i++) {
        wish.progress(`${contestant.name}: ${kind} killed ${i}/${wish.times[kind]}`)
        rounds.push(await runRound(contestant, kind, wish.random))
      }
    }
    const record = recordOf(contestant, throughput, rounds)
    wish.say(line(record))
    for (const kill of record.kills ?? [])
      wish.say(
        `    ${kill.kind.padEnd(9)} × ${kill.times}: oversold ${kill.oversold}, lost ${kill.lost}, ` +
          `doubled ${kill.doubled}, stranded ${kill.stranded} (${kill.promised} promised, ${kill.coupons} coupons, silent for ${kill.outage_ms} ms` +
          `${kill.unanswered > 0 ? `, ${kill.unanswered} unanswered` : ''}${kill.unrested ? `, ${kill.unrested} not at rest` : ''})`,
      )
    return record
  } finally {
    await contestant.stop()
  }
}

export function line(record: PeerRecord): string {
  const { name, claims_per_second: rate, p99_ms: p99, oversold, lost, doubled, stranded } = record
  return (
    `${name.padEnd(20)} ${String(rate).padStart(6)} /s  p99 ${p99} ms  ` +
    `oversold ${oversold}, lost ${lost}, doubled ${doubled}, stranded ${stranded}`
  )
}

function recordOf(contestant: Contestant, throughput: Throughput, rounds: readonly Round[]): PeerRecord {
  const { accepted, couponsThen } = throughput
  const total = sum(rounds)
  const kills = contestant.kinds
    .map((kind) => rounds.filter((round) => round.kind === kind))
    .filter((some) => some.length > 0)
    .map((some) => ({
      kind: some[0]!.kind,
      times: some.length,
      ...sum(some),
      promised: some.reduce((n, round) => n + round.promised, 0),
      withdrawn: some.reduce((n, round) => n + round.withdrawn, 0),
      unanswered: some.reduce((n, round) => n + round.unanswered, 0),
      coupons: some.reduce((n, round) => n + round.coupons, 0),
      unrested: some.filter((round) => round.unrested).length,
      outage_ms: Math.max(...some.map((round) => round.outageMs)),
    }))
  const withdrawn = kills.reduce((n, kill) => n + kill.withdrawn, 0)
  const unanswered = kills.reduce((n, kill) => n + kill.unanswered, 0)
  const unrested = kills.reduce((n, kill) => n + kill.unrested, 0)
  const notes = [
    `Path: ${contestant.path}.`,
    `When the last of ${accepted} acceptances was answered, ${couponsThen} coupons existed.`,
    withdrawn > 0
      ? `${withdrawn} promises lost with Redis' last second were told REJECTED with a reason.`
      : '',
    unrested > 0 ? `${unrested} rounds did not come to rest and were judged as they stood.` : '',
    unanswered > 0 ? `${unanswered} presses never got a final answer.` : '',
  ]
  return {
    name: contestant.name,
    about: contestant.about,
    claims_per_second: Math.round(throughput.perSecond),
    p99_ms: throughput.p99Ms,
    ...total,
    kills,
    note: notes.filter((note) => note !== '').join(' '),
  }
}
