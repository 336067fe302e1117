import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seeded } from './random.ts'
import { bound, Process, Scheduler, scope, within } from './scheduler.ts'

const make = (seed: number) => new Scheduler(1_000, seeded(seed))

test('events run in the order of their instants, and those of one instant in the order of the seed', async () => {
  const orderOf = async (seed: number) => {
    const scheduler = make(seed)
    const process = new Process('one')
    const order: string[] = []
    for (const [name, ms] of [
      ['late', 20],
      ['a', 10],
      ['b', 10],
      ['c', 10],
      ['soon', 0],
    ] as const)
      scheduler.after(ms, process, () => order.push(`${name} at ${scheduler.elapsedMs}`))
    await scheduler.run(() => false)
    return order
  }
  const order = await orderOf(1)
  assert.equal(order[0], 'soon at 0')
  assert.deepEqual(order.slice(1, 4).sort(), ['a at 10', 'b at 10', 'c at 10'])
  assert.equal(order[4], 'late at 20')
  assert.deepEqual(await orderOf(1), order)
  const orders = await Promise.all([2, 3, 4, 5, 6].map(orderOf))
  assert.ok(new Set(orders.map((one) => one.join())).size > 1)
})

test('what a killed process waited for never comes, and another’s does', async () => {
  const scheduler = make(1)
  const [dying, living] = [new Process('dying'), new Process('living')]
  const seen: string[] = []
  const live = async (process: Process) => {
    for (let i = 1; i <= 3; i++) {
      await scheduler.sleep(10, process)
      seen.push(`${process.name} ${i}`)
    }
  }
  for (const process of [dying, living]) within(process, '', () => void live(process))
  scheduler.after(15, living, () => dying.kill())
  await scheduler.run(() => false)
  assert.deepEqual(
    seen.filter((one) => one.startsWith('dying')),
    ['dying 1'],
  )
  assert.equal(seen.filter((one) => one.startsWith('living')).length, 3)
})

test('time stands still while real work is under way', async () => {
  const scheduler = make(1)
  const process = new Process('one')
  const order: string[] = []
  const real = async () => {
    await scheduler.real(new Promise((resolve) => setTimeout(resolve, 20)))
    order.push(`answered at ${scheduler.elapsedMs}`)
  }
  scheduler.after(1, process, () => void real())
  scheduler.after(2, process, () => order.push('next'))
  await scheduler.run(() => false)
  assert.deepEqual(order, ['answered at 1', 'next'])
})

test('code belongs to its process across awaits and callbacks, and code of nobody is an error', async () => {
  const process = new Process('one')
  const after = await within(process, 'part', async () => {
    await Promise.resolve()
    return bound(() => seen.push(scope().part))
  })
  const seen: string[] = []
  after()
  assert.deepEqual(seen, ['part'])
  assert.throws(scope, /belongs to no process/)
})
