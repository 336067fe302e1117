import { createHash } from 'node:crypto'
import { createWriteStream, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Pool } from '../db.ts'

/**
 * The archive's form: a folder of gzipped JSON lines, which `zcat` and any language read.
 *   reference.jsonl.gz     {table, row}: campaigns, rule versions, stock, buckets
 *   requests-DAY.jsonl.gz  {accepted_at, campaign_id, bucket, entry_id, fields}, in the order of acceptance
 *   manifest.json          {version, until, files: [{name, lines, sha256}]}, written last: without it, it is no archive
 */
export const archiveVersion = 1
export const referenceTables = ['campaigns', 'rule_versions', 'campaign_stock', 'buckets'] as const
export type ReferenceTable = (typeof referenceTables)[number]

export interface ArchivedFile {
  name: string
  lines: number
  /** Of the file's bytes, hex. */
  sha256: string
}

export interface Manifest {
  version: number
  /** RFC 3339: requests accepted before this instant. */
  until: string
  files: ArchivedFile[]
}

const pageRows = 500

/** Exports all that was accepted and decided before `untilMs`, from one instant of the database. */
export async function exportArchive(
  pool: Pick<Pool, 'transaction'>,
  folder: string,
  untilMs: number,
): Promise<Manifest> {
  mkdirSync(folder, { recursive: true })
  const until = new Date(untilMs)
  return pool.transaction(async (tx) => {
    await tx`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`
    await tx`SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)`
    const files: ArchivedFile[] = []
    files.push(
      await writeLines(folder, 'reference.jsonl.gz', async function* () {
        for (const table of referenceTables)
          for await (const rows of tx`SELECT to_jsonb(t)::text AS row FROM ${tx(table)} t`.cursor(pageRows))
            for (const { row } of rows) yield `{"table":"${table}","row":${row}}`
      }),
    )
    const days = await tx<{ day: string }[]>`
      SELECT DISTINCT to_char(accepted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day FROM request_log
      WHERE accepted_at < ${until} ORDER BY day`
    for (const { day } of days)
      files.push(
        await writeLines(folder, `requests-${day}.jsonl.gz`, async function* () {
          const page = tx<{ line: string }[]>`
            SELECT jsonb_build_object('accepted_at', to_char(accepted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
              'campaign_id', campaign_id, 'bucket', bucket, 'entry_id', entry_id, 'fields', to_jsonb(fields))::text AS line
            FROM request_log
            WHERE accepted_at < ${until} AND accepted_at >= ${new Date(day)}
              AND accepted_at < ${new Date(Date.parse(day) + 86_400_000)}
            ORDER BY accepted_at, campaign_id, bucket, split_part(entry_id, '-', 2)::bigint`
          for await (const rows of page.cursor(pageRows)) for (const { line } of rows) yield line
        }),
      )
    const manifest: Manifest = { version: archiveVersion, until: until.toISOString(), files }
    writeFileSync(join(folder, 'manifest.json.part'), `${JSON.stringify(manifest, null, 2)}\n`)
    renameSync(join(folder, 'manifest.json.part'), join(folder, 'manifest.json'))
    return manifest
  })
}

async function writeLines(
  folder: string,
  name: string,
  lines: () => AsyncGenerator<string>,
): Promise<ArchivedFile> {
  let count = 0
  const hash = createHash('sha256')
  const counted = async function* () {
    for await (const line of lines()) {
      count += 1
      yield `${line}\n`
    }
  }
  const hashed = new Transform({
    transform(chunk: Buffer, _, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  await pipeline(Readable.from(counted()), createGzip(), hashed, createWriteStream(join(folder, name)))
  return { name, lines: count, sha256: hash.digest('hex') }
}
