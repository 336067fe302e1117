import type { WireMoney } from '../../../schema/money.ts'
import type { Benefit } from '../../../schema/rules.ts'

export type Language = 'en' | 'zh'

export const localeOf: Record<Language, string> = { en: 'en', zh: 'zh-Hans' }

/** Formats are costly to make and asked for every second: each is made once. */
function once<Options, Format>(make: (locale: string, options: Options) => Format) {
  const made = new Map<string, Format>()
  return (locale: string, options: Options): Format => {
    const key = locale + JSON.stringify(options)
    const format = made.get(key) ?? make(locale, options)
    made.set(key, format)
    return format
  }
}
const numbers = once((locale, options: Intl.NumberFormatOptions) => new Intl.NumberFormat(locale, options))
const dates = once((locale, options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, options))

/** "¥20", "€12.50", "¥1,234": exact for any amount, with the decimals that the currency has. */
export function money({ currency, minor }: WireMoney, language: Language): string {
  const format = numbers(localeOf[language], {
    style: 'currency',
    currency,
    currencyDisplay: 'narrowSymbol',
    trailingZeroDisplay: 'stripIfInteger',
  })
  const digits = format.resolvedOptions().maximumFractionDigits ?? 2
  const padded = minor.padStart(digits + 1, '0')
  const cut = padded.length - digits
  // A decimal string keeps every digit, where a number would not.
  return format.format(`${padded.slice(0, cut)}.${padded.slice(cut) || '0'}` as `${number}`)
}

/** "15%" of 1500 basis points, "12.5%" of 1250. */
export function percent(basisPoints: number): string {
  return `${basisPoints / 100}%`
}

/** "8.5" of 1500 basis points off: the Chinese way to say it, in tenths of the price that remain. */
function tenthsLeft(basisPoints: number): string {
  return String((10_000 - basisPoints) / 1000)
}

/** The benefit in two lines: what it is worth, and on which condition ('' for none). */
export function benefitLines(benefit: Benefit, language: Language): [string, string] {
  const cash = (amount: WireMoney) => money(amount, language)
  const english = language === 'en'
  const over = (threshold: WireMoney) => {
    if (/^0*$/.test(threshold.minor)) return ''
    return english ? `over ${cash(threshold)}` : `满 ${cash(threshold)} 可用`
  }
  switch (benefit.kind) {
    case 'amount_off':
      return [english ? `${cash(benefit.amount)} off` : `减 ${cash(benefit.amount)}`, over(benefit.threshold)]
    case 'percent_off': {
      const head = english ? `${percent(benefit.basis_points)} off` : `${tenthsLeft(benefit.basis_points)} 折`
      const cap = benefit.cap && (english ? `up to ${cash(benefit.cap)}` : `最多减 ${cash(benefit.cap)}`)
      return [head, [over(benefit.threshold), cap].filter(Boolean).join(english ? ', ' : '，')]
    }
    case 'fixed_price':
      return [english ? `For ${cash(benefit.price)}` : `${cash(benefit.price)} 特价`, '']
    case 'free_shipping':
      return [english ? 'Free shipping' : '免运费', over(benefit.threshold)]
    default:
      // A kind that this page doesn't know yet: the campaign's name has to say it.
      return ['', '']
  }
}

const clockTime = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const

/** "10:00" today, "Sat, Dec 5, 10:00" on any other day; in the reader's zone unless another is given. */
export function when(instant: number, now: number, language: Language, timeZone?: string): string {
  const zone = timeZone === undefined ? {} : { timeZone }
  const day = dates('en-CA', { dateStyle: 'short', ...zone })
  return day.format(instant) === day.format(now)
    ? timeOfDay(instant, language, zone)
    : moment(instant, now, language, timeZone)
}

/** "Sat, Dec 5, 10:00"; with the year when it isn't this one. */
export function moment(instant: number, now: number, language: Language, timeZone?: string): string {
  const year = new Date(instant).getUTCFullYear() === new Date(now).getUTCFullYear()
  return dates(localeOf[language], {
    ...(year ? { weekday: 'short' } : { year: 'numeric' }),
    month: 'short',
    day: 'numeric',
    ...clockTime,
    ...(timeZone === undefined ? {} : { timeZone }),
  }).format(instant)
}

function timeOfDay(instant: number, language: Language, zone: { timeZone?: string }): string {
  return dates(localeOf[language], { ...clockTime, ...zone }).format(instant)
}

/** "09:58:12" */
export function timeWithSeconds(instant: number, language: Language): string {
  return dates(localeOf[language], { ...clockTime, second: '2-digit' }).format(instant)
}

/** Whether two zones show this instant differently; a zone that the browser doesn't know counts as the same. */
export function zonesDiffer(instant: number, timeZone: string): boolean {
  try {
    const here = dates('en', { dateStyle: 'short', timeStyle: 'short' })
    const there = dates('en', { dateStyle: 'short', timeStyle: 'short', timeZone })
    return here.format(instant) !== there.format(instant)
  } catch {
    return false
  }
}

/** Time left as "04:05", "03:04:05" or "2 d 03:04:05": full seconds, rounded up, so that 00:00 means now. */
export function countdown(leftMs: number, language: Language): string {
  const total = Math.max(0, Math.ceil(leftMs / 1000))
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0')
  const clock = `${two((total % 3600) / 60)}:${two(total % 60)}`
  if (total < 3600) return clock
  const hours = `${two((total % 86_400) / 3600)}:${clock}`
  if (total < 86_400) return hours
  return `${Math.floor(total / 86_400)} ${language === 'en' ? 'd' : '天'} ${hours}`
}

/** "about 40 seconds", for the size of a clock's error. */
export function roughDuration(ms: number, language: Language): string {
  const seconds = Math.round(Math.abs(ms) / 1000)
  const [value, unit] =
    seconds < 120
      ? ([seconds, 'second'] as const)
      : seconds < 7200
        ? ([Math.round(seconds / 60), 'minute'] as const)
        : ([Math.round(seconds / 3600), 'hour'] as const)
  return numbers(localeOf[language], { style: 'unit', unit, unitDisplay: 'long' }).format(value)
}

/** "1 day", "30 days", "30天" */
export function days(count: number, language: Language): string {
  return numbers(localeOf[language], {
    style: 'unit',
    unit: 'day',
    unitDisplay: 'long',
  }).format(count)
}
