/** One suite of `npm run bench`: measures, and says which of its budgets hold (DESIGN §10). */
export interface Suite {
  name: string
  about: string
  run(options: {
    /** A line of progress for the person who waits. */
    say(line: string): void
    /** How often the whole turn of cases is repeated. */
    turns: number
  }): Promise<{ result: Record<string, unknown>; budgets: Record<string, boolean> }>
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
