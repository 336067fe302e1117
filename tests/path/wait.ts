import type { HttpClient } from '../../loadtest/traffic/client.ts'
import { gatherShoppers, type Shopper } from '../../loadtest/traffic/shoppers.ts'
import type { Stack } from '../../stack/stack.ts'

/**
 * For a bound on time that can't be told from a machine that stalls: that spoils one try, and what is too slow by
 * itself is so each time.
 * @param measure a try of its own, from the beginning; @returns how long it took, ms
 */
export async function withinOnce(
  boundMs: number,
  measure: () => Promise<number>,
  triesMax = 3,
): Promise<void> {
  const times: number[] = []
  while (times.length < triesMax) {
    const ms = await measure()
    if (ms < boundMs) return
    times.push(ms)
  }
  throw new Error(`took ${times.map(Math.round).join(', ')} ms, not under ${boundMs}`)
}

/**
 * Shoppers with their tokens. A machine that stalls can outlast the second that the limits' Redis has to answer: then
 * once more, with other users.
 */
export async function gather(
  stack: Stack,
  client: HttpClient,
  campaignId: string,
  count: number,
): Promise<Shopper[]> {
  const all = () => gatherShoppers(stack, client, campaignId, count, () => {})
  return all().catch(all)
}

/** Waits for a condition with a deadline; a failing look counts as not yet. */
export async function eventually(
  what: string,
  holds: () => Promise<boolean>,
  deadlineMs = 60_000,
): Promise<void> {
  const end = Date.now() + deadlineMs
  let last: unknown
  while (Date.now() < end) {
    try {
      if (await holds()) return
    } catch (error) {
      last = error
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`not in ${deadlineMs} ms: ${what}`, { cause: last })
}

export interface SseEvent {
  type: string
  id: string | undefined
  data: Record<string, string>
}

/** The first event of this kind on an SSE stream. */
export async function sseEvent(url: string, type: RegExp, deadlineMs = 40_000): Promise<SseEvent> {
  return (await openSse(url, deadlineMs)).first(type)
}

/** An SSE stream that is open: whatever happens from now on is told by it. */
export async function openSse(
  url: string,
  deadlineMs: number,
  headers: Record<string, string> = {},
): Promise<{ first(type: RegExp): Promise<SseEvent> }> {
  const response = await fetch(url, { headers, signal: AbortSignal.timeout(deadlineMs) })
  if (!response.ok || response.body === null) throw new Error(`${response.status} ${await response.text()}`)
  const { body } = response
  return { first: (type) => firstEvent(body, type) }
}

async function firstEvent(body: ReadableStream<Uint8Array>, type: RegExp): Promise<SseEvent> {
  let text = ''
  for await (const chunk of body.pipeThrough(new TextDecoderStream() as never) as ReadableStream<string>) {
    text += chunk
    for (const block of text.split('\n\n').slice(0, -1)) {
      const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, 'm').exec(block)?.[1]
      const event = field('event')
      if (event !== undefined && type.test(event))
        return {
          type: event,
          id: field('id'),
          data: JSON.parse(field('data') ?? '{}') as Record<string, string>,
        }
    }
    text = text.slice(text.lastIndexOf('\n\n') + 2)
  }
  throw new Error('the stream ended without it')
}
