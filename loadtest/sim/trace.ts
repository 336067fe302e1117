import { createHash } from 'node:crypto'

/** All that happened in one seed, step by step: for the story of a failure, and to tell that a replay was one. */
export class Trace {
  readonly lines: string[] = []
  readonly #startedAtMs: number

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs
  }

  add(nowMs: number, who: string, what: string): void {
    const at = ((nowMs - this.#startedAtMs) / 1000).toFixed(3)
    this.lines.push(
      `${String(this.lines.length + 1).padStart(5)} ${at.padStart(8)} s  ${who.padEnd(20)} ${what}`,
    )
  }

  /** The same for the same steps in the same order, and for no others. */
  get hash(): string {
    const hash = createHash('sha256')
    for (const line of this.lines) hash.update(line).update('\n')
    return hash.digest('hex').slice(0, 16)
  }

  /** The steps that mention any of these, and all that somebody did to the system. */
  about(words: readonly string[]): string[] {
    return this.lines.filter((line) => line.includes('!!') || words.some((word) => line.includes(word)))
  }
}
