import type { FromWorker, ToWorker } from './fleet.ts'
import { simulateProduct } from './hooks.ts'
import { mutations } from './mutations.ts'

/**
 * A process that simulates seeds, one after the other, as it is told. Of a mutation, where its name is given: the
 * product is loaded once in a process, so each mutation has processes of its own.
 */

const name = process.argv[2]
const mutation = name === undefined ? undefined : mutations.find((one) => one.name === name)
if (name !== undefined && mutation === undefined) throw new Error(`there is no mutation ${name}`)
simulateProduct(mutation)
// Only now: what is loaded before the hooks stand would live in real time.
const [{ openGround }, { runSeed }] = await Promise.all([import('./ground.ts'), import('./run.ts')])
const ground = await openGround()

const send = (message: FromWorker) => process.send!(message)

async function simulate(seed: number, whole: boolean): Promise<void> {
  try {
    const { trace, plan, ...result } = await runSeed(ground, seed)
    const isStory = whole || result.violations.length > 0
    const story = isStory ? tell(plan, trace, result.violations, whole) : []
    send({ kind: 'result', ...result, story })
  } catch (error) {
    const { message, cause } = error as Error
    send({
      kind: 'fault',
      seed,
      message: `${message}\n${(cause as Error | undefined)?.stack ?? (error as Error).stack}`,
    })
  }
}

function tell(
  { troubles, happenings, ...world }: Awaited<ReturnType<typeof runSeed>>['plan'],
  trace: Awaited<ReturnType<typeof runSeed>>['trace'],
  violations: readonly string[],
  whole: boolean,
): string[] {
  const concerned = [
    ...new Set(violations.flatMap((text) => text.match(/\b(?:user|late)-\d+\b|[0-9a-f-]{36}/g) ?? [])),
  ]
  return [
    `world: ${JSON.stringify(world)}`,
    `troubles in a thousand operations: ${JSON.stringify(troubles)}`,
    `happenings: ${happenings.map((one) => JSON.stringify(one)).join(' ') || 'none'}`,
    ...(whole ? trace.lines : []),
    ...(violations.length > 0
      ? ['', 'broken (the number is the invariant of DESIGN §3):', ...violations.map((one) => `  ${one}`)]
      : []),
    ...(concerned.length > 0
      ? ['', `what concerns ${concerned.join(', ')}, and what was done to the system:`]
      : []),
    ...(concerned.length > 0 ? trace.about(concerned) : []),
  ]
}

process.on('message', (message: ToWorker) => {
  if (message.kind === 'end') ground.close().then(() => process.exit(0))
  else simulate(message.seed, message.whole)
})
process.once('disconnect', () => process.exit(1))
send({ kind: 'ready' })
