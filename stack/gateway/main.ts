import { startGateway } from './server.ts'

/**
 * The gateway as a process.
 *
 * REDIS_URL            the Redis to serve, `redis://…`
 * GATEWAY_TOKEN        the bearer token callers must show
 * GATEWAY_PORT         the port on 127.0.0.1; 0 or absent for any free one
 * GATEWAY_STRICT_KEYS  1 to refuse keys that a key-locking script did not declare
 *
 * Prints `{"listening":"http://127.0.0.1:PORT"}` on stdout when it is ready; trouble goes to stderr.
 */
function required(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set`)
  return value
}

function port(text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 0 || value > 65_535) {
    throw new Error(`GATEWAY_PORT must be a number from 0 to 65535, not ${text}`)
  }
  return value
}

const gateway = await startGateway({
  redisUrl: required('REDIS_URL'),
  token: required('GATEWAY_TOKEN'),
  port: port(process.env['GATEWAY_PORT'] ?? '0'),
  strictKeys: process.env['GATEWAY_STRICT_KEYS'] === '1',
  log: (line) => console.error(line),
}).catch((error: Error) => {
  console.error(error.message)
  process.exit(1)
})

console.log(JSON.stringify({ listening: gateway.url }))

let ending = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (ending) return
    ending = true
    gateway.close().then(() => process.exit(0))
  })
}
