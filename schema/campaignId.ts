import { equalConstantTime, type Keyring } from './sealed.ts'

/**
 * A campaign id verifies itself: `c`, 16 random characters (80 bits) and 8 of their MAC (40 bits), in Crockford's
 * base 32. An id that we never made is refused without asking any store (CL1).
 *
 * It also says where the campaign's gates are: a campaign of another store than the main one has `-` and the store's
 * name behind these. So whatever names a campaign (token, ticket, receipt, key) finds its Redis without asking
 * anybody, and nothing is longer or slower where there is one store.
 */
const crockford = '0123456789abcdefghjkmnpqrstvwxyz'
const form = /^c[0-9a-hjkmnp-tv-z]{24}(?:-[a-z0-9]{1,16})?$/
const plainChars = 25

/** The store of every campaign that names none. */
export const mainStore = 'main'
/** What a store may be called. */
export const storeNameForm = /^[a-z0-9]{1,16}$/

/** `random` has at least 16 random bytes; `store` has the form of a store's name. */
export function makeCampaignId(random: Uint8Array, ring: Keyring, store: string = mainStore): string {
  let body = ''
  for (let i = 0; i < 16; i++) body += crockford[random[i]! & 31]
  const suffix = store === mainStore ? '' : `-${store}`
  return `c${body}${tag(body + suffix, ring.mac(ring.currentKid)!)}${suffix}`
}

/** Whether we made this id, under any key of the ring. */
export function isCampaignId(id: string, ring: Keyring): boolean {
  if (!form.test(id)) return false
  const signed = id.slice(1, 17) + id.slice(plainChars)
  return ring.all.some((mac) => equalConstantTime(tag(signed, mac), id.slice(17, plainChars)))
}

/** The name of the store that has this campaign's gates; of an id that is not genuine it means nothing. */
export function storeOfCampaign(id: string): string {
  return id.charCodeAt(plainChars) === 45 ? id.slice(plainChars + 1) : mainStore
}

function tag(signed: string, mac: (text: string) => string): string {
  const digest = mac(`campaign:${signed}`)
  let out = ''
  for (let i = 0; i < 8; i++) out += crockford[base64Value(digest.charCodeAt(i)) & 31]
  return out
}

/** The value 0–63 of a base64url character code. */
function base64Value(code: number): number {
  if (code >= 97) return code - 71
  if (code === 95) return 63
  if (code >= 65) return code - 65
  if (code >= 48) return code + 4
  return 62
}
