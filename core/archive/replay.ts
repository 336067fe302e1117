import { createHash } from 'node:crypto'
import { createReadStream, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createGunzip } from 'node:zlib'
import type { Bucket } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import { groupEntries, type RawEntry } from '../claim/batch.ts'
import { issue } from '../claim/issue.ts'
import { openRuleBook } from '../claim/rules.ts'
import type { Pool } from '../db.ts'
import { archiveVersion, type Manifest, referenceTables } from './export.ts'

export interface Replayed {
  entries: number
  issued: number
  rejected: number
  /** RFC 3339: where it stopped. */
  until: string
}

export class ArchiveError extends Error {}

interface Line extends RawEntry {
  acceptedAtMs: number
  bucket: Bucket
}

/**
 * Rebuilds the ledger in an empty, migrated database from an archive, up to a moment: the same requests, in the order of
 * acceptance, through the same code that issued them. A coupon's id follows from its request, so the coupons are the
 * same. What happened to claims and coupons afterwards is not in the request log.
 * @throws ArchiveError when the archive is damaged or the database is not empty; nothing was written then.
 */
export async function replayArchive(pool: Pool, folder: string, untilMs: number): Promise<Replayed> {
  const manifest = await checkArchive(folder)
  await loadReference(pool, join(folder, 'reference.jsonl.gz'))
  const ruleBook = openRuleBook(pool)
  const sum = { entries: 0, issued: 0, rejected: 0 }
  let batch: Line[] = []
  const flush = async () => {
    for (const lines of Map.groupBy(
      batch,
      ({ bucket }) => `${bucket.campaignId}:${bucket.bucket}`,
    ).values()) {
      // As late as the drain could at least have been: validities count from there.
      const nowMs = lines.at(-1)!.acceptedAtMs
      for (const group of groupEntries(lines)) {
        if (group.unreadable.length > 0) throw new ArchiveError(`${group.unreadable[0]!.cause}`)
        const made = await issue({ pool, ruleBook, clock: () => nowMs }, lines[0]!.bucket, group, true)
        sum.issued += made.issued
        sum.rejected += made.rejected
      }
    }
    sum.entries += batch.length
    batch = []
  }
  for (const { name } of manifest.files.filter(({ name }) => name.startsWith('requests-')))
    for await (const line of linesOf(join(folder, name))) {
      const entry = parseLine(line)
      if (entry.acceptedAtMs >= untilMs) continue
      batch.push(entry)
      if (batch.length >= limits.drainEntriesMax) await flush()
    }
  await flush()
  return { ...sum, until: new Date(Math.min(untilMs, Date.parse(manifest.until))).toISOString() }
}

async function checkArchive(folder: string): Promise<Manifest> {
  let manifest: Manifest
  try {
    manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Manifest
  } catch (cause) {
    throw new ArchiveError(`${folder} has no manifest.json: it is no whole archive`, { cause })
  }
  if (manifest.version !== archiveVersion)
    throw new ArchiveError(`this archive is of version ${manifest.version}; this reads ${archiveVersion}`)
  for (const { name, sha256 } of manifest.files) {
    const hash = createHash('sha256')
    for await (const chunk of createReadStream(join(folder, name))) hash.update(chunk as Buffer)
    if (hash.digest('hex') !== sha256) throw new ArchiveError(`${name} is damaged: its SHA-256 differs`)
  }
  return manifest
}

/** Stock as it was at publication: nothing issued, and all of what transfers moved back where the ledger has it. */
async function loadReference(pool: Pool, file: string): Promise<void> {
  await pool.transaction(async (tx) => {
    const [found] = await tx`SELECT 1 FROM campaigns LIMIT 1`
    if (found !== undefined) throw new ArchiveError('the database is not empty: replay into a new one')
    for await (const line of linesOf(file)) {
      const { table, row } = JSON.parse(line) as { table: string; row: Record<string, unknown> }
      const known = referenceTables.find((name) => name === table)
      if (known === undefined) throw new ArchiveError(`the archive has an unknown table ${table}`)
      if (known === 'campaign_stock') row['issued'] = 0
      await tx`INSERT INTO ${tx(known)} SELECT * FROM jsonb_populate_record(NULL::${tx(known)}, ${JSON.stringify(row)}::jsonb)`
    }
  })
}

function parseLine(line: string): Line {
  const { accepted_at, campaign_id, bucket, entry_id, fields } = JSON.parse(line) as {
    accepted_at: string
    campaign_id: string
    bucket: number
    entry_id: string
    fields: string[]
  }
  const acceptedAtMs = Date.parse(accepted_at)
  return { id: entry_id, fields, acceptedAtMs, bucket: { campaignId: campaign_id, bucket } }
}

function linesOf(file: string) {
  return createInterface({
    input: createReadStream(file).pipe(createGunzip()),
    crlfDelay: Number.POSITIVE_INFINITY,
  })
}
