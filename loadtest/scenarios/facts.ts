import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { arch, cpus, platform, release, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Redis } from 'ioredis'
import type { Sql } from 'postgres'
import { limits } from '../../schema/limits.ts'
import type { MachineRecord, RunRecord, Scalar } from '../record/record.ts'

/** Where and with what a run was made: without it no figure means anything. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export type Facts = Pick<RunRecord, 'commit' | 'machine' | 'settings' | 'indexes'>

export async function readFacts(sql: Sql, redis: Redis, connections: number): Promise<Facts> {
  const [database] = await sql<{ version: string }[]>`SELECT current_setting('server_version') AS version`
  const info = await redis.info('server')
  return {
    commit: commitOf(),
    machine: machine({
      postgres: database!.version.split(' ')[0]!,
      redis: /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown',
    }),
    settings: {
      ...(await storeSettings(redis)),
      ...(await ledgerSettings(sql)),
      'driver: connections for claims': connections,
      driver:
        'one process on the same machine; open loop, instants planned before; latency from when a request was due',
      'product: claims per arbitration call, at most': limits.claimsPerCallMax,
      'product: arbitration calls in flight per bucket': limits.callsInFlightMax,
      'product: claim deadline ms': limits.claimDeadlineMs,
      'product: lease ms': limits.leaseMs,
      'product: unsettled entries at most': limits.drainLagEntriesMax,
      'product: oldest unsettled ms at most': limits.oldestUnsettledMaxMs,
      'product: entries per drain step': limits.drainEntriesMax,
    },
    indexes: await indexesOf(sql),
  }
}

/** How Redis keeps its data, as it says itself. */
export async function storeSettings(redis: Redis): Promise<Record<string, Scalar>> {
  const settings: Record<string, Scalar> = {}
  for (const name of ['appendonly', 'appendfsync', 'maxmemory-policy', 'maxmemory', 'io-threads'] as const) {
    const [, value] = (await redis.config('GET', name)) as [string, string]
    settings[`redis: ${name}`] = value
  }
  return settings
}

async function ledgerSettings(sql: Sql): Promise<Record<string, Scalar>> {
  const names = [
    'shared_buffers',
    'fsync',
    'synchronous_commit',
    'full_page_writes',
    'max_connections',
    'max_wal_size',
    'default_transaction_isolation',
  ]
  const rows = await sql<{ name: string; value: string }[]>`
    SELECT name, current_setting(name) AS value FROM pg_settings WHERE name = ANY(${names}) ORDER BY name`
  const [parts] = await sql<{ n: number }[]>`
    SELECT count(*)::int AS n FROM pg_inherits WHERE inhparent = 'claims'::regclass`
  return {
    ...Object.fromEntries(rows.map(({ name, value }) => [`postgres: ${name}`, value])),
    'postgres: hash partitions of claims': parts!.n,
  }
}

/** Of the tables that the claim path writes; a partition's are those of its parent. */
async function indexesOf(sql: Sql): Promise<string[]> {
  const rows = await sql<{ indexdef: string }[]>`
    SELECT indexdef FROM pg_indexes
    WHERE schemaname = 'public'
      AND tablename IN ('claims', 'coupons', 'ledger', 'outbox', 'compensations', 'campaign_stock', 'buckets')
    ORDER BY tablename, indexname`
  return rows.map(({ indexdef }) => indexdef)
}

function machine(servers: Record<string, string>): MachineRecord {
  const processors = cpus()
  return {
    cpus: processors.length,
    cpu_model: processors[0]?.model.trim() ?? 'unknown',
    memory_gib: Math.round((totalmem() / 2 ** 30) * 10) / 10,
    os: `${platform()} ${release()} ${arch()}`,
    versions: {
      node: process.version,
      ...servers,
      workerd: versionIn('node_modules/workerd/package.json'),
      tidegate: versionIn('package.json'),
    },
  }
}

function versionIn(file: string): string {
  return (JSON.parse(readFileSync(ROOT + file, 'utf8')) as { version: string }).version
}

/** The commit, and whether anything was changed since. */
function commitOf(): string {
  try {
    const git = (...args: string[]) =>
      execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    const commit = git('rev-parse', '--short=12', 'HEAD')
    return git('status', '--porcelain', '--untracked-files=no') === '' ? commit : `${commit} with changes`
  } catch {
    return 'unknown: not a git checkout'
  }
}
