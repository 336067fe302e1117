import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'
import { relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mutation } from './mutations.ts'
import './virtual/globals.ts'

/**
 * Has the product's own modules run in virtual time. Their text is the product's; what is put in front of it binds
 * the names of timers and clocks, two modules of Node are replaced for them alone, and the scripts' server clock
 * reads a key that the simulation sets. The drivers of Redis and Postgres keep the real ones.
 *
 * A mutation, where one is asked for, is applied to the text on its way.
 */

const root = fileURLToPath(new URL('../../', import.meta.url))
const product = /^(core|edge|lua|schema)\//
const replaced: Readonly<Record<string, string>> = {
  'node:timers/promises': new URL('./virtual/timersPromises.ts', import.meta.url).href,
  'node:crypto': new URL('./virtual/crypto.ts', import.meta.url).href,
}
const names = 'setTimeout, clearTimeout, setInterval, clearInterval, performance, Math, AbortSignal'
const prelude = `const { ${names} } = globalThis[Symbol.for('tidegate.simulation')];`

/** Where modules keep something that would tell one seed what the one before drew. */
const forgetful: Readonly<Record<string, string>> = { 'core/claim/uuid7.ts': 'at = pool.length' }

/** The key whose value is virtual time, ms, for the scripts. */
export const clockKey = 'tg:simulation:now'
const scriptsFile = 'lua/scripts.generated.ts'
const serverTime = "redis.call('TIME')"
const virtualTime = `(function() local t = redis.call('GET', '${clockKey}') return { math.floor(t / 1000), t % 1000 * 1000 } end)()`
/** Entries' ids are instants too. */
const serverId = "redis.call('XADD', log_key, '*'"
const virtualId = `redis.call('XADD', log_key, redis.call('GET', '${clockKey}') .. '-*'`

function fileOf(url: string): string | undefined {
  if (!url.startsWith('file:')) return undefined
  const path = relative(root, fileURLToPath(url)).split(sep).join('/')
  return product.test(path) ? path : undefined
}

/** @throws where the text to be replaced is not there, or stands there more than once. */
export function replaceOnce(text: string, find: string, replace: string, where: string): string {
  const parts = text.split(find)
  if (parts.length !== 2)
    throw new Error(`${where}: the text to replace stands there ${parts.length - 1} times: ${find}`)
  return parts.join(replace)
}

/** @param mutation a planted fault, for a run that must find it. To be called before the product is loaded. */
export function simulateProduct(mutation?: Mutation): void {
  const file = mutation === undefined ? undefined : mutation.file
  registerHooks({
    resolve(specifier, context, next) {
      const stand = replaced[specifier]
      const from = context.parentURL === undefined ? undefined : fileOf(context.parentURL)
      return stand !== undefined && from !== undefined
        ? { url: stand, shortCircuit: true }
        : next(specifier, context)
    },
    load(url, context, next) {
      const path = fileOf(url)
      if (path === undefined || !path.endsWith('.ts')) return next(url, context)
      let text = readFileSync(fileURLToPath(url), 'utf8')
      if (path === scriptsFile) text = scriptsInVirtualTime(text, mutation)
      if (path === file) text = replaceOnce(text, mutation!.find, mutation!.replace, path)
      const forget = forgetful[path]
      const last =
        forget === undefined
          ? ''
          : `\n;globalThis[Symbol.for('tidegate.simulation')].resets.push(() => { ${forget} })`
      const source = prelude + stripTypeScriptTypes(text) + last
      return { format: 'module', source, shortCircuit: true }
    },
  })
}

/** Each script with the clock of the simulation, and with its digests made anew. */
function scriptsInVirtualTime(text: string, mutation: Mutation | undefined): string {
  const line = /^ {4}source: (".*"),$/gm
  let clocks = 0
  const changed = new Map<string, string>()
  const out = text.replace(
    / {2}(\w+): \{\n {4}name: '\w+',\n {4}keyCount: (\d),\n {4}source: (".*"),\n {4}sha1: '(\w+)',\n {4}keyLockingSha1: '(\w+)',/g,
    (whole, name: string, keys: string, quoted: string) => {
      let source = JSON.parse(quoted) as string
      clocks += source.split(serverTime).length - 1
      source = source.replaceAll(serverTime, virtualTime).replaceAll(serverId, virtualId)
      const path = `lua/scripts/${name}-${keys}.lua`
      if (mutation?.file === path) source = replaceOnce(source, mutation.find, mutation.replace, path)
      changed.set(path, source)
      const sha1 = (of: string) => createHash('sha1').update(of).digest('hex')
      const keyLocking = '#!lua flags=allow-key-locking\n'
      const head = whole.slice(0, whole.indexOf('    source:'))
      return `${head}    source: ${JSON.stringify(source)},\n    sha1: '${sha1(source)}',\n    keyLockingSha1: '${sha1(keyLocking + source)}',`
    },
  )
  const expected = text.match(line)?.length ?? 0
  if (changed.size !== expected || clocks < 4)
    throw new Error(`${scriptsFile}: ${changed.size} of ${expected} scripts were read, with ${clocks} clocks`)
  if (mutation?.file.endsWith('.lua') && !changed.has(mutation.file))
    throw new Error(`no script ${mutation.file}`)
  return out
}
