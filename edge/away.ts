/** Something that the gate depends on does not answer, or not with anything usable. Its message is for us only. */
export class Away extends Error {
  /** When to come back, where that is known. */
  readonly retryAfterMs: number | undefined

  constructor(what: string, cause?: unknown, retryAfterMs?: number) {
    super(what, { cause })
    this.name = 'Away'
    this.retryAfterMs = retryAfterMs
  }
}

/** It did not answer at all, or somebody before it said so: asking it again at once would only be more of that. */
export class NoAnswer extends Away {}
