/**
 * Signed texts: `kind:kid:field:…:mac`. The kind is part of what is signed, so a text made for one purpose is
 * worthless for another. Fields are percent-encoded, so no field can contain the separator. Keys rotate by id:
 * the first of the ring signs, all verify.
 */

/** HMAC-SHA-256 of a text under one secret, base64url without padding. Given by the runtime: schema is pure. */
export type Mac = (text: string) => string

export interface Keyring {
  readonly currentKid: string
  mac(kid: string): Mac | undefined
  readonly all: readonly Mac[]
}

const kidForm = /^[A-Za-z0-9_-]{1,32}$/
const secretCharsMin = 32

/**
 * Reads `kid1:secret1,kid2:secret2`; the first key signs. A secret is text of at least 32 characters.
 * @throws with a sentence that names the variable, never the secret.
 */
export function parseKeyring(
  name: string,
  spec: string | undefined,
  macFor: (secret: string) => Mac,
): Keyring {
  if (!spec) throw new Error(`${name} is missing: give kid:secret[,kid:secret…]`)
  const keys = new Map<string, Mac>()
  for (const part of spec.split(',')) {
    const colon = part.indexOf(':')
    const kid = part.slice(0, colon)
    const secret = part.slice(colon + 1)
    if (colon < 1 || !kidForm.test(kid)) throw new Error(`${name}: a key id has 1–32 of A–Z a–z 0–9 _ -`)
    if (secret.length < secretCharsMin)
      throw new Error(`${name}: the secret of ${kid} is shorter than ${secretCharsMin}`)
    if (keys.has(kid)) throw new Error(`${name}: key id ${kid} stands twice`)
    keys.set(kid, macFor(secret))
  }
  const [currentKid] = keys.keys()
  return { currentKid: currentKid!, mac: (kid) => keys.get(kid), all: [...keys.values()] }
}

/** Compares two texts in a time that depends on their length only. */
export function equalConstantTime(a: string, b: string): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}

const plainField = /^[A-Za-z0-9_.~-]*$/

/** @throws URIError on a lone surrogate, which has no UTF-8 form. */
export function encodeField(text: string): string {
  // Most user ids are plain, and the look costs a tenth of the call into the runtime.
  return plainField.test(text) ? text : encodeURIComponent(text)
}

export function decodeField(text: string): string {
  return text.includes('%') ? decodeURIComponent(text) : text
}

/** Signs `fields` (already encoded) for `kind` with the ring's current key, or with `kid`. */
export function seal(kind: string, fields: readonly string[], ring: Keyring, kid = ring.currentKid): string {
  const mac = ring.mac(kid)
  if (mac === undefined) throw new Error(`no key ${kid}`)
  const text = `${kind}:${kid}:${fields.join(':')}`
  return `${text}:${mac(text)}`
}

/**
 * The still encoded fields of a genuine text of this kind, or undefined: malformed, unknown key or altered.
 * One HMAC, and nothing else is parsed before it held.
 */
export function unseal(
  kind: string,
  sealed: string,
  fieldCount: number,
  ring: Keyring,
): string[] | undefined {
  if (!sealed.startsWith(kind) || sealed.charCodeAt(kind.length) !== 58) return undefined
  const kidEnd = sealed.indexOf(':', kind.length + 1)
  const macStart = sealed.lastIndexOf(':')
  if (kidEnd < 0 || macStart <= kidEnd) return undefined
  const mac = ring.mac(sealed.slice(kind.length + 1, kidEnd))
  if (mac === undefined) return undefined
  if (!equalConstantTime(mac(sealed.slice(0, macStart)), sealed.slice(macStart + 1))) return undefined
  const fields = sealed.slice(kidEnd + 1, macStart).split(':')
  return fields.length === fieldCount ? fields : undefined
}
