import { Registry } from 'prom-client'
import { startCompensator } from '../../core/claim/compensate.ts'
import { startDrain } from '../../core/claim/drain.ts'
import { type ClaimView, latestClaims, readClaim } from '../../core/claim/status.ts'
import type { CommandContext } from '../../core/command.ts'
import type { Database } from '../../core/db.ts'
import type { Deps } from '../../core/deps.ts'
import { startGuardian } from '../../core/guardian/guardian.ts'
import type { Keyrings } from '../../core/keyrings.ts'
import { type Hub, startHub } from '../../core/notify/hub.ts'
import { startPublisher } from '../../core/notify/publisher.ts'
import { honourReceipt } from '../../core/recovery/honour.ts'
import { makeRecovery } from '../../core/recovery/recover.ts'
import { startStockKeeper } from '../../core/stock/keeper.ts'
import { tcpRunner } from '../../lua/runner.ts'
import type { Network } from './network.ts'
import { simulatedDatabase } from './postgres.ts'
import { type Bus, SimulatedConnection, simulatedRedis } from './redis.ts'
import { Process, within } from './scheduler.ts'
import type { RedisServer } from './server.ts'

/** A process of the core: the product's own parts with their own loops, put together as core/main.ts does it. */
export interface Core {
  readonly process: Process
  readonly hub: Hub
  readClaim(userId: string, requestId: string): Promise<ClaimView>
  /** What a person's own stream begins with. */
  latestClaims(userId: string): Promise<ClaimView[]>
  honour(receipt: string, userId: string): Promise<ClaimView>
  /** What an operator's command needs. */
  command(actor: string, role: 'operator' | 'approver', key: string): CommandContext
  /** Runs in this process. */
  run<T>(part: string, work: () => T): T
  breakSubscriptions(): void
}

export interface CoreGround {
  readonly database: Database
  readonly server: RedisServer
  readonly network: Network
  readonly bus: Bus
  readonly keyrings: Keyrings
}

/** @param consumer its name in the log's group; that of a process before it, as after a restart, or a new one. */
export function startCore(name: string, consumer: string, ground: CoreGround): Core {
  const process = new Process(name)
  const connections: SimulatedConnection[] = []
  const deps = within(process, 'core', () => makeDeps(ground, connections))
  const run = <T>(part: string, work: () => T) => within(process, part, work)

  const hub = run('hub', () => startHub(deps))
  const publisher = run('publisher', () => startPublisher(deps))
  const compensator = run('compensator', () => startCompensator(deps))
  run('drain', () =>
    startDrain(deps, {
      consumer,
      onCommitted({ rejected }) {
        publisher.wake()
        if (rejected > 0) compensator.wake()
      },
    }),
  )
  run('guardian', () => startGuardian(deps, { recover: makeRecovery(deps) }))
  run('keeper', () => startStockKeeper(deps))
  return {
    process,
    hub,
    run,
    readClaim: (userId, requestId) => run('http', () => readClaim(deps, userId, requestId)),
    latestClaims: (userId) => run('http', () => latestClaims(deps, userId, 20)),
    honour: (receipt, userId) => run('http', () => honourReceipt(deps, receipt, userId)),
    command: (actor, role, key) => ({ deps, caller: { actor, role }, idempotencyKey: key }),
    breakSubscriptions() {
      for (const connection of connections) connection.break()
    },
  }
}

function makeDeps(ground: CoreGround, connections: SimulatedConnection[]): Deps {
  const { server, network, bus, keyrings } = ground
  const client = simulatedRedis(server, network, bus)
  const runner = tcpRunner(client)
  const connect = () => {
    const connection = new SimulatedConnection(server, network, bus)
    connections.push(connection)
    return connection
  }
  const node = { address: 'main', client, runner }
  const store = {
    name: 'main',
    client,
    runner,
    isCluster: false,
    nodeOf: () => node,
    connectTo: connect,
    connectToAny: connect,
    close: () => undefined,
  }
  const stores = {
    all: [store],
    main: store,
    runner,
    has: () => true,
    of: () => store,
    close: () => undefined,
  }
  return {
    log: quietLog(network),
    db: simulatedDatabase(ground.database, network),
    stores,
    redis: client,
    subscription: connect,
    runner,
    keyrings,
    clock: () => network.scheduler.nowMs,
    metrics: new Registry(),
  } as unknown as Deps
}

/** What the product logs is part of the story. */
function quietLog(network: Network): unknown {
  const tell = (level: string) => (fields: Record<string, unknown>, text: string) => {
    const { err, ...more } = fields as { err?: Error }
    const about = JSON.stringify({ ...more, ...(err === undefined ? {} : { err: err.stack ?? err.message }) })
    network.note(`log ${level}: ${text} ${about.slice(0, 600)}`)
  }
  const log: Record<string, unknown> = { debug: () => undefined }
  for (const level of ['info', 'warn', 'error']) log[level] = tell(level)
  log['child'] = () => log
  return log
}
