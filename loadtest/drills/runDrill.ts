import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startStack } from '../../stack/stack.ts'
import type { Drill, DrillResult, Prepared } from './drill.ts'
import { World } from './world.ts'

/** A drill that takes longer has hung. */
const withinMs = 120_000
/** Everybody comes from one machine, and presses again and again. */
const limits = 'token.device=100000/1m:50000,claim.device=100000/1m:50000'

/** Runs a drill on a stack of its own, judges it, and keeps its history in `home`/drills. A drill that throws has failed, with its sentence. */
export async function runDrill(drill: Drill, home: string): Promise<DrillResult> {
  const skipped = drill.lacks?.()
  const { name, about } = drill
  if (skipped !== undefined) return { name, about, passed: false, skipped, violations: [], figures: {} }
  const dir = join(home, `drill-${process.pid}-${drill.name}`)
  const began = performance.now()
  let figures: Record<string, number> = {}
  const violations: string[] = []
  let prepared: Prepared | undefined
  try {
    prepared = await drill.prepare?.(dir)
    const stack = await startStack({
      dir,
      home,
      postgres: { settings: { shared_buffers: '64MB' } },
      env: { edge: { LIMITS: limits } },
      onUnexpectedEnd: ({ name: part, exit, tail }) =>
        violations.push(
          `${part} ended by itself: ${exit.signal ?? exit.code}, after saying: ${tail.slice(-600)}`,
        ),
      ...drill.stack,
      ...prepared?.stack,
    })
    const world = new World(stack, prepared?.tools)
    try {
      const work = drill.run(world).then(async (found) => {
        figures = { ...found, ...(await world.judge(drill.losesAcceptances ?? false)) }
      })
      const late = pause(withinMs, undefined, { ref: false }).then(() => {
        throw new Error(`it did not end within ${withinMs / 1000} s`)
      })
      await Promise.race([work, late])
    } catch (error) {
      violations.push((error as Error).message)
    } finally {
      violations.push(...world.violations)
      world.recorder.write(join(home, 'drills', `${drill.name}.jsonl`))
      await world.close()
      await stack.stop()
    }
  } catch (error) {
    violations.push(`it could not be set up or put away: ${(error as Error).message}`)
  } finally {
    await prepared?.close()
    rmSync(dir, { recursive: true, force: true })
  }
  figures['seconds'] = Math.round((performance.now() - began) / 100) / 10
  return { name, about, passed: violations.length === 0, violations, figures }
}
