import { hash53 } from '../schema/hash.ts'

/**
 * A set of users by a 32-bit fingerprint each: a member is always found, a stranger once in some 2^32 / size times.
 * Half of its cells stay empty, so a hundred thousand users are one megabyte and a look takes about one probe.
 */
export class UserSet {
  /** Open addressing; 0 is an empty cell. */
  #cells: Uint32Array<ArrayBuffer>
  #size = 0

  constructor() {
    this.#cells = new Uint32Array(64)
  }

  /** The fingerprints, to be read by `from` on any machine of the same byte order. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#cells.buffer)
  }

  /** Undefined: these are not the bytes of a set. */
  static from(bytes: ArrayBuffer): UserSet | undefined {
    const cells = bytes.byteLength / 4
    if (cells < 64 || (cells & (cells - 1)) !== 0) return undefined
    const set = new UserSet()
    set.#cells = new Uint32Array(bytes)
    for (const cell of set.#cells) if (cell !== 0) set.#size++
    return set.#size * 2 <= cells ? set : undefined
  }

  add(userId: string): void {
    const fingerprint = fingerprintOf(userId)
    const at = this.#find(fingerprint)
    if (this.#cells[at] === fingerprint) return
    this.#cells[at] = fingerprint
    if (++this.#size * 2 > this.#cells.length) this.#grow()
  }

  has(userId: string): boolean {
    const fingerprint = fingerprintOf(userId)
    return this.#cells[this.#find(fingerprint)] === fingerprint
  }

  /** The cell that holds this fingerprint, or the empty one where it belongs. */
  #find(fingerprint: number): number {
    const cells = this.#cells
    const mask = cells.length - 1
    let at = Math.imul(fingerprint, 0x9e3779b1) & mask
    while (cells[at] !== 0 && cells[at] !== fingerprint) at = (at + 1) & mask
    return at
  }

  #grow(): void {
    const old = this.#cells
    this.#cells = new Uint32Array(old.length * 2)
    for (const fingerprint of old) if (fingerprint !== 0) this.#cells[this.#find(fingerprint)] = fingerprint
  }
}

function fingerprintOf(userId: string): number {
  return hash53(userId, 3) >>> 0 || 1
}
