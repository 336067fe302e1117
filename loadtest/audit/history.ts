/**
 * What clients did and heard, and what was done to the system: the form in which a drill leaves it behind, one JSON
 * object a line. Instants are ms since the epoch by one steady clock of the recording process, which no fault steps.
 */

/** What one operation came to. */
export type Answer =
  | { outcome: 'accepted'; request_id: string; accepted_at_ms: number; replayed: boolean }
  /** A receipt was taken; what becomes of its claim is told later. */
  | { outcome: 'honoured'; request_id: string; status: string }
  /** Refused, for good or for now: the public code. */
  | { outcome: 'refused'; code: string }
  /** Nobody can say whether it happened. */
  | { outcome: 'unknown'; why: string }

/** One request of one client. */
export interface Operation {
  type: 'operation'
  /** The client's thread of control: it has one operation at a time. */
  process: string
  user: string
  operation: 'claim' | 'receipt'
  /** Its Idempotency-Key; of a receipt, the key of the claim that it proves. */
  key: string
  /** A fingerprint of its claim token. */
  token: string
  invoked_ms: number
  /** Null: the run ended before an answer came. */
  completed_ms: number | null
  answer: Answer
}

/** Something that was done to the system from outside. */
export interface Fault {
  type: 'fault'
  at_ms: number
  what: string
  /** Redis may have forgotten what it had acknowledged. */
  forgets?: true
}

/** An operator's command. */
export interface Command {
  type: 'command'
  verb: string
  invoked_ms: number
  /** When the operator heard that every gate had it. */
  completed_ms: number
}

/** What the campaign promises; the first line of a history. */
export interface Opening {
  type: 'campaign'
  campaign_id: string
  starts_ms: number
  ends_ms: number
}

export type HistoryEvent = Opening | Operation | Fault | Command

export function toLines(events: readonly HistoryEvent[]): string {
  return events.map((event) => `${JSON.stringify(event)}\n`).join('')
}

export function fromLines(text: string): HistoryEvent[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as HistoryEvent)
}
