import { createHash } from 'node:crypto'

/**
 * Turns a key-locking script's text into what stock Redis takes; the rest of the gateway never sees the
 * difference.
 */
export type ScriptRewrite = (script: string) => string

const KEY_LOCKING = 'allow-key-locking'
const ALIASES_MAX = 10_000

export interface AdaptedScript {
  /** What to send instead. */
  text: string
  /** The caller's digest. */
  digest: string
  /** The digest under which Redis has it. */
  knownDigest: string
}

/**
 * Scripts whose text had to be changed, and under which digest Redis has them.
 *
 * Stock Redis refuses the `allow-key-locking` flag, so such a script is sent without it and Redis caches it
 * under another digest than the one the caller computed. This map only translates digests: whether a script
 * is cached is always answered by Redis itself, so a flush or restart behind the gateway's back ends in
 * NOSCRIPT as it should.
 */
export class ScriptAliases {
  readonly #byCaller = new Map<string, string>()
  readonly #rewriteBody: ScriptRewrite

  /** @param rewriteBody applied to the lines after the shebang; must not change the number of lines. */
  constructor(rewriteBody: ScriptRewrite = (body) => body) {
    this.#rewriteBody = rewriteBody
  }

  /**
   * The text to send instead, remembered for later EVALSHA; undefined when stock Redis takes the script as it
   * is.
   */
  adapt(script: string): AdaptedScript | undefined {
    const shebang = keyLockingShebang(script)
    if (shebang === undefined) return undefined
    const body = script.slice(script.indexOf('\n') + 1)
    const text = `${shebang}\n${this.#rewriteBody(body)}`
    const digest = sha1(script)
    const knownDigest = sha1(text)
    if (this.#byCaller.size >= ALIASES_MAX) this.#forgetOldest()
    this.#byCaller.set(digest, knownDigest)
    return { text, digest, knownDigest }
  }

  /** The digest under which Redis has the script that the caller calls `digest`. */
  resolve(digest: string): string {
    return this.#byCaller.get(digest) ?? this.#byCaller.get(digest.toLowerCase()) ?? digest
  }

  /** After SCRIPT FLUSH. */
  clear(): void {
    this.#byCaller.clear()
  }

  #forgetOldest(): void {
    const [oldest] = this.#byCaller.keys()
    if (oldest !== undefined) this.#byCaller.delete(oldest)
  }
}

/** The shebang without the flag, or undefined if the script has no shebang with that flag. */
function keyLockingShebang(script: string): string | undefined {
  if (!script.startsWith('#!lua')) return undefined
  const end = script.indexOf('\n')
  if (end < 0) return undefined
  const words = script.slice(0, end).split(' ')
  let found = false
  const kept = words.flatMap((word) => {
    if (!word.startsWith('flags=')) return [word]
    const flags = word.slice('flags='.length).split(',')
    const others = flags.filter((flag) => flag !== KEY_LOCKING)
    if (others.length === flags.length) return [word]
    found = true
    return others.length > 0 ? [`flags=${others.join(',')}`] : []
  })
  return found ? kept.join(' ') : undefined
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}
