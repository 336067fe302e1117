import { drizzle } from 'drizzle-orm/postgres-js'
import type { TransactionSql } from 'postgres'
import type { Client, Database, Pool } from '../../core/db.ts'
import type { Network } from './network.ts'
import { type Scheduler, type Scope, scope, within } from './scheduler.ts'

/**
 * The core's way to the real Postgres. A statement outside of a transaction is one operation; a transaction is one
 * too, and its own statements run as they come. What it asks Redis in between is an operation of its own, in whose
 * meantime everybody else's Redis goes on, and nobody else's Postgres.
 */

type Query = Promise<unknown> & {
  strings?: readonly string[]
  cursor?: (rows: number) => AsyncIterable<unknown>
}
type Tx = TransactionSql<{ bigint: number }>

export function simulatedDatabase(real: Database, network: Network): Database {
  return {
    query: simulatedPool(real.query, network),
    issuance: simulatedPool(real.issuance, network),
    direct: simulatedPool(real.direct, network),
    admin: simulatedPool(real.admin, network),
    close: async () => undefined,
  }
}

const broken = () => Object.assign(new Error('write CONNECTION_CLOSED'), { code: 'CONNECTION_CLOSED' })

function simulatedPool(pool: Pool, network: Network): Pool {
  const { scheduler } = network
  const park = (made: unknown, text: string): unknown => {
    if (!(made instanceof Promise)) return made
    const start = made.then.bind(made)
    let parked: Promise<unknown> | undefined
    return withThen(made, () => {
      parked ??= network.operate({
        store: 'postgres',
        what: summary(text),
        run: () => scheduler.real(new Promise(start)),
        told: (rows) => `${(rows as { count?: number }).count ?? 0} rows`,
        broken,
        outlives: true,
      })
      return parked
    })
  }
  const begin = (...given: [string, Work] | [Work]) => transact(pool.sql, network, given)
  const sql = new Proxy(pool.sql, {
    apply: (target, self, args) => park(Reflect.apply(target, self, args), textOf(args[0])),
    get(target, name) {
      if (name === 'begin') return begin
      if (name === 'unsafe')
        return (...args: [string]) => park(Reflect.apply(target.unsafe, target, args), args[0])
      return Reflect.get(target, name)
    },
  }) as Client
  return {
    sql,
    orm: ormOver(sql),
    transaction: (work) => sql.begin(work) as ReturnType<typeof work>,
  }
}

/** As core/db.ts makes it: drizzle turns the client's own conversion of instants off, which is undone. */
function ormOver(sql: Client): Pool['orm'] {
  const { parsers, serializers } = sql.options
  const [parse, serialize] = [parsers[1184]!, serializers[1184]!]
  const orm = drizzle(sql)
  parsers[1184] = parse
  serializers[1184] = serialize
  return orm
}

type Work = (tx: Tx) => Promise<unknown>

async function transact(client: Client, network: Network, given: [string, Work] | [Work]): Promise<unknown> {
  const work = given.at(-1) as Work
  const mine = scope()
  const statements: string[] = []
  return network.operate({
    store: 'postgres',
    what: 'transaction',
    run: () => runTransaction(client, network, work, mine, statements),
    told: () => `committed: ${statements.join('; ')}`,
    broken,
    outlives: false,
  })
}

class Died extends Error {}

async function runTransaction(
  client: Client,
  network: Network,
  work: Work,
  { process, part }: Scope,
  statements: string[],
): Promise<unknown> {
  const { scheduler } = network
  const end = network.beginTransaction()
  let release = scheduler.hold()
  try {
    return await client.begin(async (tx) => {
      release()
      const died = Promise.withResolvers<never>()
      died.promise.catch(() => undefined)
      const die = () => died.reject(new Died('its process died'))
      process.onDeath.add(die)
      try {
        const done = within(process, part, () => work(counted(tx, scheduler, statements)))
        return await Promise.race([done, died.promise])
      } finally {
        process.onDeath.delete(die)
        release = scheduler.hold()
      }
    })
  } finally {
    release()
    end()
  }
}

/** A transaction whose statements hold everything else while they run. */
function counted(tx: Tx, scheduler: Scheduler, statements: string[]): Tx {
  const count = (made: unknown, text: string): unknown => {
    if (!(made instanceof Promise)) return made
    const query = made as Query
    const start = query.then.bind(query)
    const { cursor } = query
    // Read in portions, it settles by them and not by itself.
    let inPortions = false
    if (cursor !== undefined)
      query.cursor = (rows) => {
        inPortions = true
        statements.push(summary(text))
        return countedCursor(cursor.call(query, rows), scheduler)
      }
    let running: Promise<unknown> | undefined
    return withThen(query, () => {
      if (inPortions) return new Promise(start)
      if (running === undefined) statements.push(summary(text))
      running ??= scheduler.real(new Promise(start))
      return running
    })
  }
  return new Proxy(tx, {
    apply: (target, self, args) => count(Reflect.apply(target, self, args), textOf(args[0])),
    get(target, name) {
      if (name === 'unsafe')
        return (...args: [string]) => count(Reflect.apply(target.unsafe, target, args), args[0])
      return Reflect.get(target, name)
    },
  })
}

function countedCursor(rows: AsyncIterable<unknown>, scheduler: Scheduler): AsyncIterable<unknown> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = rows[Symbol.asyncIterator]()
      return { next: () => scheduler.real(iterator.next()) }
    },
  }
}

/** The driver sends a statement when it is first waited for: `run` takes the place of that. */
function withThen(query: Promise<unknown>, run: () => Promise<unknown>): Promise<unknown> {
  return Object.assign(query, {
    // biome-ignore lint/suspicious/noThenProperty: the driver’s statements are thenables, and stand in one another
    then: (ok?: (value: unknown) => unknown, no?: (error: unknown) => unknown) => run().then(ok, no),
    catch: (no: (error: unknown) => unknown) => run().catch(no),
    finally: (last: () => void) => run().finally(last),
  })
}

const textOf = (strings: unknown) => (Array.isArray(strings) ? strings.join('?') : String(strings))

/** What a statement does, in a few words. */
function summary(text: string): string {
  const flat = text.replace(/\s+/g, ' ').replaceAll('"', '').trim()
  const [verb = ''] = flat.split(' ', 1)
  const tables = [...flat.matchAll(/\b(?:FROM|INTO|UPDATE|JOIN) (?!unnest|\()([a-z_]+)/gi)].map(
    (match) => match[1]!,
  )
  const lock = / FOR (UPDATE|SHARE)/.test(flat) ? ' for update' : ''
  return `${verb.toLowerCase()} ${[...new Set(tables)].slice(0, 3).join(', ')}${lock}`
}
