/** Waits for a condition with a deadline; a failing look counts as not yet. */
export async function eventually(
  what: string,
  holds: () => Promise<boolean>,
  deadlineMs = 30_000,
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

/** The first event of this kind on an SSE stream. */
export async function sseEvent(
  url: string,
  type: RegExp,
  deadlineMs = 15_000,
  headers: Record<string, string> = {},
): Promise<{ type: string; id: string | undefined; data: Record<string, string> }> {
  const response = await fetch(url, { headers, signal: AbortSignal.timeout(deadlineMs) })
  if (!response.ok || response.body === null) throw new Error(`${response.status} ${await response.text()}`)
  let text = ''
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
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
