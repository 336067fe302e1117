import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { type SeedReport, simulateSeeds } from './fleet.ts'
import { replaceOnce } from './hooks.ts'
import { mutations } from './mutations.ts'

/** Time is the worlds' own; what they take of ours is the machine's business. */
const patience = { timeout: 400_000 }

const range = (count: number, first = 1) => Array.from({ length: count }, (_, i) => first + i)

async function reports(seeds: readonly number[], mutation?: string): Promise<SeedReport[]> {
  const found: SeedReport[] = []
  await simulateSeeds({
    seeds,
    workers: 1,
    ...(mutation === undefined ? {} : { mutation }),
    onResult(report) {
      found.push(report)
      return mutation === undefined || report.violations.length === 0
    },
  })
  return found
}

test(
  'thirty small worlds with crashes, losses and rewinds keep every invariant, and a seed repeats step by step',
  patience,
  async () => {
    const [first, second] = await Promise.all([reports(range(15)), reports([...range(15, 16), 3, 7])])
    const all = [...first, ...second]
    assert.deepEqual(
      all.flatMap(({ seed, violations }) => violations.map((what) => `seed ${seed}: ${what}`)),
      [],
    )
    // They were worth something: coupons, lost stores, moved stock.
    const sum = (of: (counts: SeedReport['counts']) => number) =>
      all.reduce((n, { counts }) => n + of(counts), 0)
    assert.ok(sum(({ coupons }) => coupons) > 80)
    assert.ok(sum(({ losses }) => losses) > 5)
    assert.ok(sum(({ transfers }) => transfers) > 5)
    for (const seed of [3, 7]) {
      const [one, again] = all.filter((report) => report.seed === seed)
      assert.deepEqual([again!.hash, again!.steps], [one!.hash, one!.steps], `seed ${seed}`)
    }
    assert.equal(new Set(all.map(({ hash }) => hash)).size, 30)
  },
)

test('three planted bugs are caught, each with a story that says what broke', patience, async () => {
  const names = ['replay-ignored', 'token-reuse-unseen', 'lease-ignored']
  await Promise.all(
    names.map(async (name) => {
      const found = await reports(range(10), name)
      const { violations, story } = found.at(-1)!
      assert.ok(violations.length > 0, `${name}: not within ${found.length} seeds`)
      const text = story.join('\n')
      for (const violation of violations) assert.ok(text.includes(violation), name)
      assert.match(text, /world: \{"seed":\d+/)
    }),
  )
})

test('a planted bug whose place is gone, or not the only one, is an error', () => {
  assert.equal(replaceOnce('a b c', 'b', 'x', 'here'), 'a x c')
  assert.throws(
    () => replaceOnce('a b c', 'd', 'x', 'here'),
    /here: the text to replace stands there 0 times/,
  )
  assert.throws(() => replaceOnce('a b b', 'b', 'x', 'here'), /2 times/)
})

test('every planted bug fits the present text of the product, and stands in the documents', async () => {
  const document = await readFile(new URL('../../docs/simulation.md', import.meta.url), 'utf8')
  for (const { name, file, find } of mutations) {
    assert.ok(document.includes(`| \`${name}\` |`), `${name} is not in docs/simulation.md`)
    const text = await readFile(new URL(`../../${file}`, import.meta.url), 'utf8')
    assert.equal(text.split(find).length, 2, `${name}: ${file}`)
  }
  assert.equal(new Set(mutations.map(({ name }) => name)).size, mutations.length)
})
