import { parseRateLimit, type Rate, type RateLimit, rateOf } from '../../schema/rate.ts'

/** Routes that are limited: claim tokens, claims, and a user's own reads. */
export const limitedRoutes = ['token', 'claim', 'read'] as const
export type LimitedRoute = (typeof limitedRoutes)[number]

/** From the outside in: what all share, then whom a request comes from. See `Tiers` for the last three. */
export const limitTiers = ['platform', 'campaign', 'user', 'device', 'address', 'network', 'site'] as const
export type LimitTier = (typeof limitTiers)[number]

export type RouteLimits = { readonly [tier in LimitTier]: Rate }
export type Limits = { readonly [route in LimitedRoute]: RouteLimits }

/**
 * `platform` and `campaign` are per isolate; the others too for claims and reads, and everywhere together for
 * tokens. A user may come once a second for long, with a burst for clients that repeat what they have not heard.
 */
const defaults: Record<LimitedRoute, Record<LimitTier, string>> = {
  token: {
    platform: '20000/1s',
    campaign: '10000/1s',
    user: '120/1m:60',
    device: '240/1m:120',
    address: '600/10s:300',
    network: '6000/10s:3000',
    site: '12000/10s:6000',
  },
  claim: {
    platform: '100000/1s',
    campaign: '50000/1s',
    user: '120/1m:60',
    device: '240/1m:120',
    address: '3000/10s:1500',
    network: '30000/10s:15000',
    site: '60000/10s:30000',
  },
  read: {
    platform: '100000/1s',
    campaign: '50000/1s',
    user: '300/1m:120',
    device: '600/1m:300',
    address: '6000/10s:3000',
    network: '60000/10s:30000',
    site: '120000/10s:60000',
  },
}

/**
 * Reads `route.tier=count/time[:burst]`, separated by commas; what is not named keeps its default.
 * @throws with a sentence that names the entry.
 */
export function parseLimits(text = ''): Limits {
  const specs = structuredClone(defaults)
  for (const entry of text.split(',')) {
    if (entry.trim() === '') continue
    const [, route = '', tier = '', spec = ''] = /^\s*(\w+)\.(\w+)=(\S+)\s*$/.exec(entry) ?? []
    const known =
      limitedRoutes.includes(route as LimitedRoute) &&
      limitTiers.includes(tier as LimitTier) &&
      parseRateLimit(spec) !== undefined
    if (!known)
      throw new Error(
        `LIMITS: ${JSON.stringify(entry.trim())} is not route.tier=count/time[:burst], such as token.user=10/5s:5`,
      )
    specs[route as LimitedRoute][tier as LimitTier] = spec
  }
  const rates = (route: LimitedRoute) =>
    Object.fromEntries(limitTiers.map((tier) => [tier, rateOf(parseRateLimit(specs[route][tier])!)]))
  return Object.freeze(
    Object.fromEntries(limitedRoutes.map((route) => [route, Object.freeze(rates(route))])),
  ) as Limits
}

/** What a campaign's rules say instead, as rates. */
export type CampaignRates = { readonly [tier in LimitTier]?: Rate }

export function ratesOf(limits: { [tier: string]: RateLimit | undefined } | undefined): CampaignRates {
  const rates: { [tier in LimitTier]?: Rate } = {}
  for (const tier of limitTiers) {
    const limit = limits?.[tier]
    if (limit !== undefined) rates[tier] = rateOf(limit)
  }
  return rates
}
