import { keyLockingLine, scripts } from '../../lua/scripts.generated.ts'
import type { Network } from './network.ts'
import { describeScript, scriptName } from './redis.ts'
import type { RedisServer } from './server.ts'

/**
 * The edge's way to the real Redis: a REST gateway that is asked by `fetch`. A call that is given up by its time limit
 * goes on, and may be done twice by what stands in between.
 */

const digests = new Map(
  Object.values(scripts).map(({ keyLockingSha1, sha1 }) => [keyLockingSha1 as string, sha1 as string]),
)

export function simulatedFetch(store: RedisServer, network: Network): typeof fetch {
  const answerOf = (result: unknown) =>
    ({ status: 200, json: async () => ({ result }) }) as unknown as Response

  const ask = (args: string[]) =>
    network.operate<unknown>({
      store: 'redis',
      what: `REST ${describeScript(args)}`,
      async run() {
        const reply = await store.script(scriptName(args[0]!), args)
        return network.stormy && network.scheduler.random.chance(0.01)
          ? store.script(scriptName(args[0]!), args)
          : reply
      },
      told: (reply) => String(reply).replaceAll('\n', ' | '),
      broken: () => new TypeError('fetch failed'),
      outlives: true,
    })

  return ((_url: string, init: { body: string; signal: AbortSignal }) => {
    const [command, digest, ...rest] = JSON.parse(init.body) as string[]
    const sha1 = command === 'EVALSHA' ? digests.get(digest!) : undefined
    if (sha1 === undefined) throw new Error(`the gateway knows no ${command} with ${keyLockingLine.trim()}`)
    return new Promise<Response>((resolve, reject) => {
      init.signal.addEventListener('abort', () => reject(init.signal.reason))
      ask([sha1, ...rest]).then((result) => resolve(answerOf(result)), reject)
    })
  }) as unknown as typeof fetch
}
