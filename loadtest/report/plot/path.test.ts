import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { shortenPath } from './path.ts'

/** Reads a path of `M`, then `l`, by the rules of SVG, written without a look at what writes it. */
function pointsOf(path: string): number[][] {
  const numbers = path.match(/-?(?:\d+\.\d+|\.\d+|\d+)/g)!.map(Number)
  const points = [[numbers[0]!, numbers[1]!]]
  for (let i = 2; i < numbers.length; i += 2) {
    const [x, y] = points.at(-1)!
    points.push([x! + numbers[i]!, y! + numbers[i + 1]!].map((value) => Math.round(value * 10) / 10))
  }
  return points
}

describe('a shortened path', () => {
  test('leaves out what lies on the way, and nothing else', () => {
    assert.equal(shortenPath('M0 5L1 5L2 5L3 5L3 9L4 2'), 'M0 5l3 0 0 4 1-7')
    assert.equal(shortenPath('M0 5L9 5L2 5'), 'M0 5l9 0-7 0')
  })

  test('passes through the same points to a tenth, first and last among them', () => {
    const tenth = fc.integer({ min: -4000, max: 4000 }).map((value) => value / 10)
    fc.assert(
      fc.property(fc.array(fc.tuple(tenth, tenth), { minLength: 1, maxLength: 50 }), (points) => {
        const kept = pointsOf(shortenPath(`M${points.map(([x, y]) => `${x} ${y}`).join('L')}`))
        assert.deepEqual(
          [kept[0], kept.at(-1)],
          [points[0]!.map((v) => v + 0), points.at(-1)!.map((v) => v + 0)],
        )
        for (const point of kept) assert.ok(points.some(([x, y]) => x === point[0] && y === point[1]))
      }),
    )
  })

  test('of anything but straight lines is as it was', () => {
    for (const path of ['M1 1A5.6 5.6 0 1 1 18.1 6.4', 'M0 0L1 1Z', 'M0 0l1 1'])
      assert.equal(shortenPath(path), path)
  })
})
