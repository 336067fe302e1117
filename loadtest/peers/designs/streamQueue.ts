import type { Redis } from 'ioredis'

/** A message queue of the at-least-once kind, on a Redis stream: what is not acknowledged is given again. */
const group = 'issuers'
const consumer = 'issuer'

export interface Message {
  readonly id: string
  readonly fields: Readonly<Record<string, string>>
}

export async function makeQueue(redis: Redis, key: string): Promise<void> {
  await redis.xgroup('CREATE', key, group, '0', 'MKSTREAM')
}

/**
 * Gives messages to `handle`, those first that an earlier life of the consumer left without acknowledgement.
 * @throws when Redis is away or `handle` throws; whatever was not acknowledged comes again.
 */
export async function consumeQueue(
  blocking: Redis,
  key: string,
  count: number,
  stopped: () => boolean,
  handle: (messages: readonly Message[]) => Promise<void>,
): Promise<void> {
  let from = '0'
  while (!stopped()) {
    const read = await blocking.xreadgroup(
      ...(['GROUP', group, consumer, 'COUNT', count, 'BLOCK', 200, 'STREAMS', key, from] as const),
    )
    const messages = messagesOf(read)
    if (messages.length === 0) {
      from = '>'
      continue
    }
    await handle(messages)
    await blocking.xack(key, group, ...messages.map(({ id }) => id))
  }
}

function messagesOf(read: unknown): Message[] {
  const streams = (read ?? []) as [string, [string, string[] | null][]][]
  return (streams[0]?.[1] ?? []).map(([id, values]) => {
    const fields: Record<string, string> = {}
    for (let i = 0; values !== null && i < values.length; i += 2) fields[values[i]!] = values[i + 1]!
    return { id, fields }
  })
}

/** Messages that nobody has acknowledged. */
export async function queuePending(redis: Redis, key: string): Promise<number> {
  const [info] = (await redis.xinfo('GROUPS', key)) as unknown[][]
  if (info === undefined) return 0
  const at = (name: string) => Number(info[info.indexOf(name) + 1] ?? 0)
  return at('pending') + at('lag')
}
