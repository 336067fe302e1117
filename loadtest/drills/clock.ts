import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { findProgram } from '../../stack/host.ts'
import { until } from '../../stack/process.ts'
import { startRedis } from '../../stack/redis.ts'
import { ensureRedis } from '../../stack/redis-install.ts'
import { runCommand } from '../../stack/run-command.ts'
import type { Drill } from './drill.ts'
import { steadyNowMs } from './recorder.ts'
import type { World } from './world.ts'

/**
 * Clocks that jump. Redis' clock decides windows and leases; the core's is compared with it before each lease. True
 * time is this process' own, which nothing steps.
 */

/** How far a process' wall clock is off from now on, s. */
type Step = (seconds: number) => void

const faults = join(import.meta.dirname, 'faults')
const hourS = 3_600
/** What a stepped clock makes the gate say for good; people know better and try again. */
const again = ['NOT_STARTED', 'ENDED']
/** A lease lasts 5 s. */
const leaseAndMoreMs = 5_500

function stepFile(dir: string): { file: string; step: Step } {
  mkdirSync(dir, { recursive: true })
  const file = join(dir, 'clock-step')
  const step: Step = (seconds) => writeFileSync(file, `${seconds}\n`)
  step(0)
  return { file, step }
}

/** A redis-server whose clock can be stepped, as a start script. */
async function steppedRedis(dir: string, home: string, file: string): Promise<string> {
  const library = join(dir, 'clockStep.so')
  const cc = findProgram(['cc', 'gcc', 'clang'])!
  const made = await runCommand(cc, ['-shared', '-fPIC', '-O2', '-o', library, join(faults, 'clockStep.c')])
  if (made.code !== 0) throw new Error(`the library that steps a clock can't be made: ${made.output.trim()}`)
  const script = join(dir, 'stepped-redis-server')
  const binary = await ensureRedis({ home: join(home, 'redis-program') })
  const lines = [
    '#!/bin/sh',
    `export LD_PRELOAD='${library}' CLOCK_STEP_FILE='${file}'`,
    `exec '${binary}' "$@"`,
  ]
  writeFileSync(script, `${lines.join('\n')}\n`)
  chmodSync(script, 0o755)
  return script
}

function changer(world: World, whose: string): Step {
  const step = world.tools['step'] as Step
  return (seconds) => {
    world.fault(`${whose} clock is ${seconds} s off`)
    step(seconds)
  }
}

/** The clock jumps before the start, and everyone presses: nothing may be accepted until the start by true time. */
async function aheadBeforeTheStart(world: World, step: Step, startsAtMs: number): Promise<void> {
  if (steadyNowMs() > startsAtMs - 3_000) throw new Error('this machine is too busy: the start came too soon')
  step(hourS)
  await until(() => steadyNowMs() > startsAtMs - 100, 'the start does not come', 60_000)
  const early = world.flood!.told.length
  if (early > 0) world.violations.push(`${early} claims were accepted before the start`)
  await until(() => steadyNowMs() > startsAtMs + 1_000, 'the start does not come', 60_000)
  step(0)
}

/** Nobody renews leases, and the clock goes back: they must not last longer for it. */
async function backInALease(world: World, step: Step, startsAtMs: number): Promise<number> {
  const { flood } = world
  const backS = 8
  await until(() => steadyNowMs() > startsAtMs + backS * 1_000 + 4_000, 'the time does not pass', 60_000)
  await world.untilTold(flood!.told.length + 20)
  world.fault('core frozen')
  world.stack.part('core').pause()
  step(-backS)
  await pause(leaseAndMoreMs)
  const told = flood!.told.length
  await pause(2_500)
  const late = flood!.told.length - told
  if (late > 0) world.violations.push(`${late} claims were accepted after the last lease had run out`)
  world.stack.part('core').resume()
  world.fault('core thawed')
  await pause(1_500)
  step(0)
  return late
}

export const clockSteppedRedis: Drill = {
  name: 'clock-stepped-redis',
  about:
    'Redis’ clock jumps an hour ahead before the start, and back in a lease: nothing outside of window or lease by true time',
  lacks() {
    if (process.platform !== 'linux') return 'it needs LD_PRELOAD: run it on Linux'
    if (findProgram(['cc', 'gcc', 'clang']) === undefined)
      return 'it needs a C compiler to step the clock of redis-server: apt install gcc libc6-dev'
    return undefined
  },
  async prepare(dir) {
    const { file, step } = stepFile(dir)
    const binary = await steppedRedis(dir, join(dir, '..'), file)
    const redis = await startRedis({ binary, dir: join(dir, 'stepped-redis') })
    return {
      stack: { external: { redisUrl: redis.url } },
      tools: { step },
      close: async () => void (await redis.kill()),
    }
  },
  async run(world) {
    const step = changer(world, 'Redis’')
    const startsAtMs = Date.now() + 20_000
    await world.open(1_300, { quota: 1_200, startsAtMs, endsAtMs: startsAtMs + 3 * hourS * 1_000 })
    const flood = world.startFlood({ atOnce: 8, everyMs: 150, again })
    try {
      await aheadBeforeTheStart(world, step, startsAtMs)
      await world.untilTold(40)
      await backInALease(world, step, startsAtMs)
      await world.untilTold(flood.told.length + 40)
      step(-hourS)
      await pause(2_000)
      step(hourS)
      await pause(2_000)
    } finally {
      step(0)
    }
    await world.untilTold(flood.told.length + 20)
    flood.hurry()
    await flood.finish()
    return { not_started: flood.codes['NOT_STARTED'] ?? 0, busy: flood.codes['BUSY'] ?? 0 }
  },
}

export const clockSteppedCore: Drill = {
  name: 'clock-stepped-core',
  about:
    'the core’s clock jumps an hour ahead and an hour back: what is accepted is delivered, and no lease until the clocks agree',
  async prepare(dir) {
    const { file, step } = stepFile(dir)
    const load = pathToFileURL(join(faults, 'steppedDate.ts')).href
    return {
      stack: { env: { core: { NODE_OPTIONS: `--import ${load}`, CLOCK_STEP_FILE: file } } },
      tools: { step },
      close: async () => undefined,
    }
  },
  async run(world) {
    const step = changer(world, 'the core’s')
    await world.open(1_300, { quota: 1_200 })
    const flood = world.startFlood({ atOnce: 8, everyMs: 150 })
    await world.untilTold(40)
    for (const seconds of [hourS, -hourS]) {
      step(seconds)
      await pause(leaseAndMoreMs + 1_000)
      const told = flood.told.length
      await until(async () => (await world.settledIds()).size >= told, 'nothing is delivered', 15_000, 100)
      await pause(500)
      if (flood.told.length > told)
        world.violations.push(`${flood.told.length - told} claims were accepted while the clocks disagreed`)
      step(0)
      await world.untilTold(flood.told.length + 40)
    }
    flood.hurry()
    await flood.finish()
    return { busy: flood.codes['BUSY'] ?? 0 }
  },
}
