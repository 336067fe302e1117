/** How the report writes numbers: few digits, thousands apart, never an exponent. */

const digits = (value: number): number => {
  const size = Math.abs(value)
  if (size >= 1000 || Number.isInteger(value)) return 0
  if (size >= 10) return 1
  return size >= 1 ? 2 : 3
}

/** Three or four figures that count: `12,345`, `114.5`, `0.123`; `–` for nothing. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  if (!Number.isFinite(value)) return '∞'
  return value.toLocaleString('en-US', { maximumFractionDigits: digits(value) })
}

/** For the ticks of an axis: `950`, `12k`, `3.4M`. */
export function short(value: number): string {
  const size = Math.abs(value)
  const scaled = (by: number, unit: string) => `${number(Number((value / by).toPrecision(3)))}${unit}`
  if (size >= 1e6) return scaled(1e6, 'M')
  return size >= 10_000 ? scaled(1e3, 'k') : number(value)
}

export const ms = (value: number | null | undefined): string =>
  value === null || value === undefined ? '–' : `${number(value)} ms`

export const seconds = (value: number): string => `${number(value)} s`

/** A share of 1 as `12.3 %`. */
export const percent = (value: number): string => (Number.isFinite(value) ? `${number(value * 100)} %` : '–')

/** `12 runs`, `1 run`. */
export const many = (count: number, one: string, more = `${one}s`): string =>
  `${number(count)} ${count === 1 ? one : more}`

/** A setting or figure of any kind. */
export function scalar(value: string | number | boolean): string {
  return typeof value === 'number'
    ? number(value)
    : typeof value === 'boolean'
      ? value
        ? 'yes'
        : 'no'
      : value
}
