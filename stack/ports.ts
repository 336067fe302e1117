import { createServer } from 'node:net'

/** Whether something else listens on 127.0.0.1:port, or the port may not be used. */
export async function portIsFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}

/** A port on 127.0.0.1 that nothing listens on now. Another process can still take it: be ready to retry. */
export async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen({ port: 0, host: '127.0.0.1', exclusive: true }, () => {
      const address = probe.address()
      const port = typeof address === 'object' && address !== null ? address.port : 0
      probe.close(() => resolve(port))
    })
  })
}

/**
 * Chooses a port: the required one, else a preferred one that is free, else any free one.
 * @throws when the required port is busy, naming it and the setting that asked for it.
 */
export async function choosePort(options: {
  required?: { port: number; setting: string } | undefined
  preferred?: number[]
}): Promise<number> {
  if (options.required) {
    const { port, setting } = options.required
    if (await portIsFree(port)) return port
    throw new Error(
      `Port ${port} on 127.0.0.1 is busy, and ${setting} asks for it. Stop what listens there, or set ${setting} to a free port (0 = any).`,
    )
  }
  for (const port of options.preferred ?? []) if (port > 0 && (await portIsFree(port))) return port
  return freePort()
}
