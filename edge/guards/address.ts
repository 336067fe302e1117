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

export function tiersOf(address: Address): Tiers {
  if (isIpv4(address))
    return { address: prefixOf(address, 128), network: prefixOf(address, 120), site: undefined }
  return { address: prefixOf(address, 64), network: prefixOf(address, 56), site: prefixOf(address, 48) }
}

/** A list of addresses and networks, asked in as many look-ups as it has different lengths of prefixes. */
export class Networks {
  readonly #prefixes = new Map<number, Set<string>>()

  /** @throws on a text that is neither an address nor a network. */
  constructor(texts: readonly string[]) {
    for (const text of texts) {
      const [addressText = '', bitsText] = text.split('/')
      const address = parseAddress(addressText)
      const offset = addressText.includes(':') ? 0 : 96
      const bits = bitsText === undefined ? 128 : Number(bitsText) + offset
      const wellFormed = bitsText === undefined || /^\d{1,3}$/.test(bitsText)
      if (address === undefined || !wellFormed || bits > 128 || text.split('/').length > 2)
        throw new Error(`${JSON.stringify(text)} is neither an address nor a network`)
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
