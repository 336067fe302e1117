/**
 * Writes scripts.generated.ts from scripts/*.lua, so that the same text reaches the Worker and Node.
 * `--check` only compares, for CI. The number of keys comes from the file's name (claim-3.lua has three).
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const here = import.meta.dirname
const target = join(here, 'scripts.generated.ts')
/** Upstash locks the whole database for a script without this line, and only the script's keys with it. */
const keyLocking = '#!lua flags=allow-key-locking\n'

const sha1 = (text: string) => createHash('sha1').update(text).digest('hex')

function generate(): string {
  const parts = readdirSync(join(here, 'scripts'))
    .filter((file) => file.endsWith('.lua'))
    .sort()
    .map((file) => {
      const form = /^([a-z]+(?:_[a-z]+)*)-(\d)\.lua$/.exec(file)
      if (form === null) throw new Error(`${file}: a script is named verb-keys.lua`)
      const [, name, keys] = form
      // The header is for readers; Redis needs only the code.
      const source = readFileSync(join(here, 'scripts', file), 'utf8').replace(/^--\[\[[\s\S]*?\]\]\n/, '')
      return `  ${name}: {
    name: '${name}',
    keyCount: ${keys},
    source: ${JSON.stringify(source)},
    sha1: '${sha1(source)}',
    keyLockingSha1: '${sha1(keyLocking + source)}',
  },`
    })
  return `// Made by lua/build.ts from lua/scripts. Do not edit.
export const keyLockingLine = ${JSON.stringify(keyLocking)}

export interface Script {
  readonly name: string
  readonly keyCount: number
  readonly source: string
  readonly sha1: string
  /** Digest of the key-locking line followed by the source. */
  readonly keyLockingSha1: string
}

export const scripts = {
${parts.join('\n')}
} as const satisfies Record<string, Script>
`
}

const wanted = generate()
if (process.argv.includes('--check')) {
  let present = ''
  try {
    present = readFileSync(target, 'utf8')
  } catch {}
  if (present !== wanted) {
    console.error('lua/scripts.generated.ts is not what lua/scripts says: run `node lua/build.ts`')
    process.exit(1)
  }
} else {
  writeFileSync(target, wanted)
}
