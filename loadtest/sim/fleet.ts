import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { redisBinary, testServerUrl } from '../../stack/testing.ts'

/** Processes that simulate: seeds are independent of each other, so each takes the next one. */

export type ToWorker = { kind: 'seed'; seed: number; whole: boolean } | { kind: 'end' }

export interface SeedReport {
  seed: number
  steps: number
  virtualMs: number
  hash: string
  violations: string[]
  counts: {
    acceptances: number
    coupons: number
    rejected: number
    losses: number
    returns: number
    transfers: number
  }
  story: string[]
}

export type FromWorker =
  | { kind: 'ready' }
  | ({ kind: 'result' } & SeedReport)
  /** The simulation itself failed: nothing is known of the seed. */
  | { kind: 'fault'; seed: number; message: string }

export interface FleetOptions {
  seeds: readonly number[]
  workers: number
  mutation?: string
  /** Keep every step for the story. */
  whole?: boolean
  /** @returns false: no further seed is begun. */
  onResult(report: SeedReport): boolean
}

const workerFile = fileURLToPath(new URL('./worker.ts', import.meta.url))

/** Simulates the seeds. @throws when the simulation itself fails in one of them. */
export async function simulateSeeds(options: FleetOptions): Promise<void> {
  const env = {
    ...process.env,
    TEST_DATABASE_URL: await testServerUrl(),
    TEST_REDIS_BIN: await redisBinary(),
  }
  const queue = [...options.seeds]
  const count = Math.min(options.workers, queue.length)
  await Promise.all(Array.from({ length: count }, () => work(queue, env, options)))
}

/** One process, from its start to its end. */
function work(queue: number[], env: NodeJS.ProcessEnv, options: FleetOptions): Promise<void> {
  const args = options.mutation === undefined ? [] : [options.mutation]
  const child = fork(workerFile, args, {
    env,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdio: 'inherit',
  })
  return new Promise((resolve, reject) => {
    let ended = false
    const tell = (message: ToWorker) => child.send(message)
    const next = () => {
      const seed = queue.shift()
      ended = seed === undefined
      tell(seed === undefined ? { kind: 'end' } : { kind: 'seed', seed, whole: options.whole === true })
    }
    child.on('message', (message: FromWorker) => {
      if (message.kind === 'fault') {
        queue.length = 0
        reject(new Error(message.message))
        end(child)
        return
      }
      if (message.kind === 'result' && !options.onResult(message)) queue.length = 0
      next()
    })
    child.once('error', reject)
    child.once('exit', (code) =>
      ended && code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`)),
    )
  })
}

/** Its servers go with it. */
function end(child: ChildProcess): void {
  child.send({ kind: 'end' } satisfies ToWorker)
}
