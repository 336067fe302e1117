import { isIP } from 'node:net'
import { limits } from '../../../schema/limits.ts'
import { isPublicAddress } from './address.ts'

/**
 * What is wrong with an address that somebody gave for deliveries, as a sentence's end; undefined: nothing. What its
 * name resolves to is not looked at here: that may change until a delivery, and is checked with each.
 * @param insecure http and addresses that are not public are fine: for tests.
 */
export function targetFault(text: string, insecure: boolean): string | undefined {
  if (text.length > limits.webhookUrlCharsMax) return `give at most ${limits.webhookUrlCharsMax} characters`
  if (!URL.canParse(text)) return 'give a URL'
  const url = new URL(text)
  if (url.protocol !== 'https:' && !(insecure && url.protocol === 'http:')) return 'give an https URL'
  if (url.username !== '' || url.password !== '') return 'give no user or password in it'
  if (url.hash !== '') return 'give no fragment'
  if (insecure) return undefined
  const host = hostOf(url)
  if (isIP(host) !== 0)
    return isPublicAddress(host) ? undefined : 'give a public address: private ones are not delivered to'
  return /(^|\.)(localhost|local|internal)\.?$/.test(host) ? 'give a public host name' : undefined
}

/** Without the brackets of an IPv6 address. The parser has made any spelling of an IPv4 address dotted. */
export const hostOf = (url: URL) => url.hostname.replace(/^\[(.*)\]$/, '$1')
