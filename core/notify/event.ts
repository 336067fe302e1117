/**
 * What is told to users: rows of the outbox, on their way through Redis to every core process, and from there
 * down the streams. They are told at least once; the same event has the same id.
 */
export interface OutboxEvent {
  eventId: number
  createdAtMs: number
  userId: string
  /** The claim that it is about. */
  requestId: string | null
  /** As `claim.delivered`. */
  type: string
  /** The payload, a JSON text without line breaks. */
  data: string
}

type Wire = [number, number, string, string | null, string, string]

/** One message on the results channel. The payloads travel as texts: most processes have no use for most of them. */
export function encodeEvents(events: readonly OutboxEvent[]): string {
  return JSON.stringify(
    events.map(
      (event): Wire => [
        event.eventId,
        event.createdAtMs,
        event.userId,
        event.requestId,
        event.type,
        event.data,
      ],
    ),
  )
}

/** @throws on what we never sent. */
export function decodeEvents(message: string): OutboxEvent[] {
  return (JSON.parse(message) as Wire[]).map(([eventId, createdAtMs, userId, requestId, type, data]) => ({
    eventId,
    createdAtMs,
    userId,
    requestId,
    type,
    data,
  }))
}

/**
 * Where a stream may be taken up again. The outbox gives out its numbers before its transactions commit, so a lower
 * one may appear after a higher one: a number alone can't be the place to go on from. The time can, with an overlap
 * that no transaction outlasts.
 */
export interface StreamPosition {
  /** 0: of no event, as after a snapshot. */
  eventId: number
  atMs: number
}

/** No transaction that writes events takes longer (the pools' statement timeouts are far below), clocks included. */
export const overlapMs = 60_000

export function formatPosition({ eventId, atMs }: StreamPosition): string {
  return `${eventId}-${atMs}`
}

/** Undefined for anything that is not a position of ours, which then means: from the start. */
export function parsePosition(text: string | undefined): StreamPosition | undefined {
  const match = /^(\d{1,15})-(\d{1,15})$/.exec(text ?? '')
  return match === null ? undefined : { eventId: Number(match[1]), atMs: Number(match[2]) }
}

export const positionOf = (event: OutboxEvent): StreamPosition => ({
  eventId: event.eventId,
  atMs: event.createdAtMs,
})

/** One event of a stream (WHATWG HTML, server-sent events). */
export function sseText(type: string, data: string, position: StreamPosition): string {
  return `id: ${formatPosition(position)}\nevent: ${type}\ndata: ${data}\n\n`
}
