import { equalConstantTime, type Keyring } from './sealed.ts'

/**
 * A campaign id verifies itself: `c`, 16 random characters (80 bits) and 8 of their MAC (40 bits), in Crockford's
 * base 32. An id that we never made is refused without asking any store (CL1).
 */
const crockford = '0123456789abcdefghjkmnpqrstvwxyz'
const form = /^c[0-9a-hjkmnp-tv-z]{24}$/

/** `random` has at least 16 random bytes. */
export function makeCampaignId(random: Uint8Array, ring: Keyring): string {
  let body = ''
  for (let i = 0; i < 16; i++) body += crockford[random[i]! & 31]
  return `c${body}${tag(body, ring.mac(ring.currentKid)!)}`
}

/** Whether we made this id, under any key of the ring. */
export function isCampaignId(id: string, ring: Keyring): boolean {
  if (!form.test(id)) return false
  const body = id.slice(1, 17)
  return ring.all.some((mac) => equalConstantTime(tag(body, mac), id.slice(17)))
}

function tag(body: string, mac: (text: string) => string): string {
  const digest = mac(`campaign:${body}`)
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
