/** An address as its eight 16-bit groups; IPv4 as ::ffff:a.b.c.d, so that both families are one space. */
export type Address = readonly number[]

const ipv4Form = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/
const groupForm = /^[0-9a-f]{1,4}$/i
const mappedGroup = 0xffff

/** Undefined for anything that is not exactly one address: no zone, no port, no blanks, no leading zeros. */
export function parseAddress(text: string): Address | undefined {
  if (text.length > 45) return undefined
  if (!text.includes(':')) {
    const low = parseIpv4(text)
    return low === undefined ? undefined : [0, 0, 0, 0, 0, mappedGroup, ...low]
  }
  return parseIpv6(text)
}

function parseIpv4(text: string): [number, number] | undefined {
  const parts = ipv4Form.exec(text)
  if (parts === null) return undefined
  const bytes: number[] = []
  for (let i = 1; i <= 4; i++) {
    const part = parts[i]!
    // A leading zero means octal to some readers: two readers, two addresses.
    if (Number(part) > 255 || (part.length > 1 && part.startsWith('0'))) return undefined
    bytes.push(Number(part))
  }
  return [bytes[0]! * 256 + bytes[1]!, bytes[2]! * 256 + bytes[3]!]
}

function parseIpv6(text: string): Address | undefined {
  const halves = text.split('::')
  if (halves.length > 2) return undefined
  const head = parseGroups(halves[0]!, halves.length === 1)
  if (halves.length === 1) return head?.length === 8 ? head : undefined
  const tail = parseGroups(halves[1]!, true)
  if (head === undefined || tail === undefined) return undefined
  const zeros = 8 - head.length - tail.length
  // `::` stands for at least one group.
  return zeros < 1 ? undefined : [...head, ...new Array<number>(zeros).fill(0), ...tail]
}

function parseGroups(text: string, mayEndInIpv4: boolean): number[] | undefined {
  if (text === '') return []
  const groups: number[] = []
  const parts = text.split(':')
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i]!
    if (groupForm.test(part)) groups.push(Number.parseInt(part, 16))
    else {
      const low = mayEndInIpv4 && i === parts.length - 1 ? parseIpv4(part) : undefined
      if (low === undefined) return undefined
      groups.push(...low)
    }
  }
  return groups
}

export function isIpv4(address: Address): boolean {
  for (let i = 0; i < 5; i++) if (address[i] !== 0) return false
  return address[5] === mappedGroup
}

/** A text that all addresses with the same first `bits` share, and no others. */
export function prefixOf(address: Address, bits: number): string {
  let out = `${bits}`
  for (let i = 0; i < 8 && i * 16 < bits; i++) {
    const kept = Math.min(16, bits - i * 16)
    out += `:${(address[i]! & (0xffff << (16 - kept))).toString(16)}`
  }
  return out
}

/**
 * What a client is limited by: `address` is what one client has for sure (IPv4 whole, IPv6 its /64, within
 * which it may take any, case-K1); `network` and `site` are what one customer may have (IPv6 /56 and /48).
 * IPv4 has `network` only, its /24: its neighbours are unrelated people, so its limit should be wide.
 */
export interface Tiers {
  readonly address: string
  readonly network: string
  readonly site: string | undefined
}

/** Built by hand and not by `prefixOf`: every claim pays for it. */
export function tiersOf(address: Address): Tiers {
  const [g0, g1, g2, g3] = address as [number, number, number, number]
  if (isIpv4(address)) {
    const high = address[6]!
    const low = address[7]!
    return { address: `${high}.${low}`, network: `${high}.${low >> 8}`, site: undefined }
  }
  const site = `${g0}:${g1}:${g2}`
  return { address: `${site}:${g3}`, network: `${site}:${g3 >> 8}`, site }
}

interface Network {
  address: Address
  /** Of the eight groups, so 96 more than those of an IPv4 network. */
  bits: number
}

function parseNetwork(text: string): Network | undefined {
  const slash = text.indexOf('/')
  const addressText = slash < 0 ? text : text.slice(0, slash)
  const bitsText = slash < 0 ? undefined : text.slice(slash + 1)
  const address = parseAddress(addressText)
  if (address === undefined) return undefined
  if (bitsText === undefined) return { address, bits: 128 }
  const bits = Number(bitsText) + (addressText.includes(':') ? 0 : 96)
  return /^\d{1,3}$/.test(bitsText) && bits <= 128 ? { address, bits } : undefined
}

export function isNetwork(text: string): boolean {
  return parseNetwork(text) !== undefined
}

/** A list of addresses and networks, asked in as many look-ups as it has different lengths of prefixes. */
export class Networks {
  readonly #prefixes = new Map<number, Set<string>>()

  /** @throws on a text that is neither an address nor a network. */
  constructor(texts: readonly string[]) {
    for (const text of texts) {
      const network = parseNetwork(text)
      if (network === undefined)
        throw new Error(`${JSON.stringify(text)} is neither an address nor a network`)
      const { address, bits } = network
      const known = this.#prefixes.get(bits)
      if (known === undefined) this.#prefixes.set(bits, new Set([prefixOf(address, bits)]))
      else known.add(prefixOf(address, bits))
    }
  }

  has(address: Address): boolean {
    for (const [bits, prefixes] of this.#prefixes) if (prefixes.has(prefixOf(address, bits))) return true
    return false
  }
}
