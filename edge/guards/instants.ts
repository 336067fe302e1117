/**
 * An instant for each of many keys, in two numbers a key and outside of the collector's heap: of a map's hundred
 * thousand texts, every collection had to look at all. Keys are integers above zero, such as hashes; instants are above zero.
 * Open addressing; half of the cells stay empty, so a look takes about one probe.
 */
export class Instants {
  /** A key and its instant, by turns; a key of 0 is an empty cell. */
  #cells = new Float64Array(2 * 64)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** 0: this key has none. */
  get(key: number): number {
    return this.#cells[this.#find(key) + 1]!
  }

  set(key: number, instant: number): void {
    const at = this.#find(key)
    const isNew = this.#cells[at] === 0
    this.#cells[at] = key
    this.#cells[at + 1] = instant
    if (isNew && ++this.#size * 4 > this.#cells.length) this.#grow()
  }

  /** Forgets all, and keeps the room for as many. */
  clear(): void {
    this.#cells.fill(0)
    this.#size = 0
  }

  /** Where this key stands, or the empty cell where it belongs. */
  #find(key: number): number {
    const cells = this.#cells
    const last = cells.length - 2
    let at = (key << 1) & last
    while (cells[at] !== 0 && cells[at] !== key) at = (at + 2) & last
    return at
  }

  #grow(): void {
    const old = this.#cells
    this.#cells = new Float64Array(old.length * 2)
    for (let i = 0; i < old.length; i += 2) {
      if (old[i] === 0) continue
      const at = this.#find(old[i]!)
      this.#cells[at] = old[i]!
      this.#cells[at + 1] = old[i + 1]!
    }
  }
}
