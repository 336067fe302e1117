/**
 * A path of straight lines in few bytes: coordinates in tenths, each but the first as a step from the one before, and
 * points in the middle of a straight run left out. A report has hundreds of lines of hundreds of points, most of them
 * level for long.
 */
export function shortenPath(path: string): string {
  if (!/^M[\d\s.,L-]+$/.test(path)) return path
  const points = path
    .slice(1)
    .split('L')
    .map((point) =>
      point
        .trim()
        .split(/[\s,]+/)
        .map((part) => Math.round(Number(part) * 10)),
    )
  if (points.some((point) => point.length !== 2 || point.some(Number.isNaN))) return path
  const kept = points.filter((point, i) => {
    const [before, after] = [points[i - 1], points[i + 1]]
    return !before || !after || !isStraight(before, point, after)
  })
  const steps = kept.slice(1).map(([x, y], i) => {
    const [fromX, fromY] = kept[i]!
    return `${tenths(x! - fromX!)}${y! < fromY! ? '' : ' '}${tenths(y! - fromY!)}`
  })
  const [startX, startY] = kept[0]!
  const start = `M${tenths(startX!)} ${tenths(startY!)}`
  return steps.length === 0 ? start : `${start}l${steps.join(' ').replaceAll(' -', '-')}`
}

/** On a level or upright line, going on in one direction: leaving the point out changes nothing that is drawn. */
function isStraight(before: number[], at: number[], after: number[]): boolean {
  const on = (along: number, across: number) =>
    before[across] === at[across] &&
    at[across] === after[across] &&
    (at[along]! - before[along]!) * (after[along]! - at[along]!) >= 0
  return on(0, 1) || on(1, 0)
}

const tenths = (value: number) => String(value / 10).replace(/^(-?)0\./, '$1.')
