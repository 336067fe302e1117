import { readFileSync } from 'node:fs'

/**
 * For drills, loaded before a Node program (`--import`): its Date is as many seconds off as CLOCK_STEP_FILE says, so
 * that its wall clock can be stepped while it runs. Timers and performance.now() are left alone, as by a real step.
 */

const lookEveryMs = 20
const file = process.env['CLOCK_STEP_FILE'] ?? ''
const Real = Date
let offsetMs = 0

function look(): void {
  try {
    offsetMs = Number(readFileSync(file, 'utf8')) * 1_000
  } catch {
    // Not written yet: no offset.
  }
}

class SteppedDate extends Real {
  constructor(...given: unknown[]) {
    if (given.length === 0) super(Real.now() + offsetMs)
    else super(...(given as [number]))
  }
  static override now(): number {
    return Real.now() + offsetMs
  }
}

look()
setInterval(look, lookEveryMs).unref()
globalThis.Date = SteppedDate as DateConstructor
