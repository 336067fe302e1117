/** The one place that spells Redis keys (DESIGN §4). */

/** One slice of a campaign's stock. */
export interface Bucket {
  readonly campaignId: string
  readonly bucket: number
}

/** The consumer group of every bucket's log. */
export const drainGroup = 'core'

/** Campaign ids contain neither braces nor colons, so two different buckets can never share a key or a slot tag. */
function key(of: Bucket, part: string): string {
  return `tg:{${of.campaignId}:${of.bucket}}:${part}`
}
export const gateKey = (of: Bucket) => key(of, 'gate')
export const usersKey = (of: Bucket) => key(of, 'users')
export const logKey = (of: Bucket) => key(of, 'log')
/** Transfers that touched this bucket: id → signed amount. */
export const movesKey = (of: Bucket) => key(of, 'moves')

/** The campaign whose key this is. */
export function campaignOfKey(name: string): string {
  return name.slice(4, name.indexOf(':', 4))
}

/** Channel on which results are told to every core process. */
export const resultsChannel = 'tg:results'
