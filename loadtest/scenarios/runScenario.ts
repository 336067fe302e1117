import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startStack } from '../../stack/stack.ts'
import type { ScenarioRecord } from '../record/record.ts'
import { type Facts, readFacts, storeSettings } from './facts.ts'
import { measure } from './measure.ts'
import type { Load, Scenario } from './scenario.ts'
import { conclude } from './verdict.ts'
import { connections, makeMetricsToken, World } from './world.ts'

export interface RunOptions {
  /** Where stacks keep their files, and what they share. */
  home: string
  seconds: number
  /** Requests a second at the peak; undefined: the scenario's share of what a rehearsal shows. */
  perSecond: number | undefined
  seed: number
  /** How long the rehearsal takes, s; 2 unless given. */
  rehearsalSeconds?: number
  /** Rewrites one line. */
  progress(line: string): void
}

export interface RunResult {
  record: ScenarioRecord
  facts: Facts
}

const samplesAtMost = 240
const sampleEveryLeastMs = 250
const rehearsal = 2
const shortRun = 15
const rateLeast = 50
/** A scenario that takes so much longer than people come has hung. */
const patienceSeconds = 300

/** Runs a scenario on a stack of its own and judges it. @throws when it can't be run at all. */
export async function runScenario(scenario: Scenario, options: RunOptions): Promise<RunResult> {
  const dir = join(options.home, `loadtest-${process.pid}-${scenario.name}`)
  const { progress, seconds } = options
  let world: World | undefined
  const prepared = await scenario.prepare?.(dir, options.home)
  try {
    const metricsToken = makeMetricsToken()
    const unexpected: string[] = []
    const stack = await startStack({
      dir,
      home: options.home,
      // The product's own limits: everybody has a device and an address of his own.
      env: { edge: { METRICS_TOKEN: metricsToken, LIMITS: '' } },
      progress,
      onUnexpectedEnd: ({ name, exit }) =>
        unexpected.push(`${name} ended by itself: ${exit.signal ?? exit.code}`),
      ...scenario.stack,
      ...prepared?.stack,
    })
    try {
      world = new World({
        stack,
        metricsToken,
        tools: prepared?.tools ?? {},
        sampleEveryMs: Math.max(sampleEveryLeastMs, Math.ceil((seconds * 1000) / samplesAtMost / 250) * 250),
        progress,
      })
      const facts = await readFacts(world.sql, world.redis, connections)
      const load = await loadFor(scenario, world, options)
      Object.assign(world.settings, await storeSettings(world.redis))
      const measured = await within(
        scenario.run(world, load).then(() => measure(scenario, world!, load)),
        seconds + patienceSeconds,
      )
      const record = { ...measured, violations: [...measured.violations, ...unexpected] }
      return { record: conclude(record, scenario.judge(record, load)), facts }
    } finally {
      await world?.close()
      await stack.stop()
    }
  } finally {
    await prepared?.close()
    rmSync(dir, { recursive: true, force: true })
  }
}

/** @throws when it takes longer; what it still does ends with the stack. */
async function within<T>(work: Promise<T>, limitSeconds: number): Promise<T> {
  const over = new AbortController()
  const late = pause(limitSeconds * 1000, undefined, { signal: over.signal }).then(() => {
    throw new Error(`it did not end within ${Math.round(limitSeconds)} s`)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    over.abort()
    // Told above, or called off: nobody else is to hear of either.
    late.catch(() => undefined)
    work.catch(() => undefined)
  }
}

async function loadFor(scenario: Scenario, world: World, options: RunOptions): Promise<Load> {
  const { seconds, seed, rehearsalSeconds = seconds < shortRun ? rehearsal / 2 : rehearsal } = options
  // Also where the rate is given: a cold system is another scenario.
  const capacity = await world.rehearse(rehearsalSeconds)
  const given = options.perSecond
  return {
    seconds,
    seed,
    perSecond: given ?? Math.max(rateLeast, Math.round(capacity * scenario.share)),
    capacity: given === undefined ? capacity : undefined,
  }
}
