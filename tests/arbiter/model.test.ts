import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { tcpRunner } from '../../lua/runner.ts'
import { type FreshRedis, freshRedis } from '../../stack/testing.ts'
import { commandsArbitrary, Interpreter } from './commands.ts'

/** More with `ARBITER_SEQUENCES=20000 npm test -- tests/arbiter/model.test.ts`; a seed replays with ARBITER_SEED. */
const sequences = Number(process.env['ARBITER_SEQUENCES'] ?? 2000)
const seed = process.env['ARBITER_SEED'] ? Number(process.env['ARBITER_SEED']) : undefined

describe('the arbiter agrees with its model', () => {
  let server: FreshRedis
  let redis: Redis
  before(async () => {
    server = await freshRedis({ appendfsync: 'off' })
    redis = new Redis(server.url)
  })
  after(async () => {
    redis?.disconnect()
    await server?.stop()
  })

  const seen = new Map<string, number>()
  let runs = 0
  // In parts, for on a slow machine all of them would outlast the time that one test has; a seed is one part.
  const part = seed === undefined ? 250 : sequences
  for (let from = 0; from < sequences; from += part) {
    const numRuns = Math.min(part, sequences - from)
    it(`on every reply and every snapshot of random sequences of up to 100 commands: ${from + 1} to ${from + numRuns}`, () =>
      fc.assert(
        fc.asyncProperty(commandsArbitrary, async (commands) => {
          const run = new Interpreter(tcpRunner(redis), redis, `c${runs++}`, seen)
          try {
            for (const command of commands) await run.step(command)
          } finally {
            await run.clear()
          }
        }),
        { numRuns, ...(seed === undefined ? {} : { seed }), endOnFailure: false },
      ))
  }

  it('and the sequences led into every verdict and every outcome', () => {
    // The generator must really lead into every verdict and every outcome, or agreement says little.
    const wanted = [...'NYMTVEPSBLOA'].map((letter) => `claim ${letter}`)
    wanted.push('configure applied', 'configure same', 'configure stale', 'compensate returned')
    wanted.push(
      'compensate already',
      'compensate delivered',
      'compensate missing',
      'move moved',
      'move already',
    )
    wanted.push('rebuild rebuilt', 'rebuild unsettled', 'prime primed', 'prime already', 'prime conflict')
    const missing = wanted.filter((what) => !seen.get(what))
    if (sequences >= 2000) assert.deepEqual(missing, [])
  })
})
