import { readdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import type { Part } from '../../stack/part.ts'

/**
 * A SIGKILL alone takes nothing from a file that was written: the kernel keeps it. A power cut takes what was not
 * synced, with `appendfsync everysec` up to a second. So the size of Redis' append-only file is watched, and when
 * the process is killed, the file is cut back to what it was a second before.
 */
export class PowerCut {
  readonly #redis: Part
  readonly #folder: string
  readonly #timer: NodeJS.Timeout
  #sizes: { at: number; file: string; bytes: number }[] = []

  constructor(redis: Part, stackDir: string) {
    this.#redis = redis
    this.#folder = join(stackDir, 'redis', 'appendonlydir')
    this.#look()
    this.#timer = setInterval(() => this.#look(), 20)
  }

  /** Kills Redis and takes the last second of its file. @returns bytes that are gone */
  async cut(unsyncedMs = 1_000): Promise<number> {
    const until = performance.now() - unsyncedMs
    await this.#redis.kill()
    this.close()
    const last = this.#sizes.at(-1)
    const then = this.#sizes.filter(({ at }) => at <= until).at(-1) ?? this.#sizes[0]
    if (last === undefined || then === undefined || then.file !== last.file)
      throw new Error('the append-only file was replaced meanwhile')
    const bytes = statSync(last.file).size
    truncateSync(last.file, then.bytes)
    return bytes - then.bytes
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const name = readdirSync(this.#folder)
      .filter((file) => file.endsWith('.incr.aof'))
      .sort()
      .at(-1)
    if (name === undefined) return
    const file = join(this.#folder, name)
    this.#sizes.push({ at: performance.now(), file, bytes: statSync(file).size })
  }
}
