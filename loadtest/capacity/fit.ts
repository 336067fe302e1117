/** So many claims in so many calls took so much. */
export interface Observation {
  readonly claims: number
  readonly calls: number
  readonly us: number
}

/**
 * Splits what runs took into a share for each claim and one for each call, such that the sum of the squares of the
 * relative errors is least: a long run weighs no more than a short one. A share that comes out below zero is noise,
 * and the other takes all.
 */
export function perClaimAndCall(runs: readonly Observation[]): { claim: number; call: number } {
  const rows = runs
    .filter(({ us }) => us > 0)
    .map(({ claims, calls, us }) => ({ x: claims / us, y: calls / us }))
  const sum = (of: (row: { x: number; y: number }) => number) => rows.reduce((all, row) => all + of(row), 0)
  const [xx, yy, xy] = [sum(({ x }) => x * x), sum(({ y }) => y * y), sum(({ x, y }) => x * y)]
  const [x, y] = [sum((row) => row.x), sum((row) => row.y)]
  const determinant = xx * yy - xy * xy
  const alone = { claim: xx === 0 ? 0 : x / xx, call: 0 }
  // Runs whose calls were all of one size can't tell the two apart.
  if (determinant <= 1e-9 * xx * yy) return alone
  const claim = (x * yy - y * xy) / determinant
  const call = (y * xx - x * xy) / determinant
  if (call < 0) return alone
  if (claim < 0) return { claim: 0, call: y / yy }
  return { claim, call }
}
