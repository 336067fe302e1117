import { migrate } from '../../schema/db/migrate.ts'
import { exportArchive } from '../archive/export.ts'
import { ArchiveError, replayArchive } from '../archive/replay.ts'
import { connectDatabase } from '../db.ts'
import { OpsError } from './errors.ts'

/**
 * Exports the request log to `--folder`, or rebuilds an empty database from one, up to `--until` (RFC 3339; now).
 * @returns what it did, for JSON. @throws OpsError
 */
export async function archive(
  verb: string | undefined,
  { folder, until }: { folder?: string | undefined; until?: string | undefined },
  databaseUrl: string | undefined,
): Promise<object> {
  if (verb !== 'export' && verb !== 'replay')
    throw new OpsError('usage', 'Give archive export or archive replay.')
  if (folder === undefined) throw new OpsError('usage', 'Give --folder.')
  if (databaseUrl === undefined)
    throw new OpsError(
      'usage',
      'Give DATABASE_URL: of the ledger to export, or of the empty database to fill.',
    )
  const untilMs = until === undefined ? Date.now() : Date.parse(until)
  if (Number.isNaN(untilMs))
    throw new OpsError('usage', '--until is an instant such as 2026-12-01T10:00:00Z.')
  if (verb === 'replay') await migrate(databaseUrl)
  const db = connectDatabase({ url: databaseUrl, prepare: true })
  try {
    return verb === 'export'
      ? await exportArchive(db.admin, folder, untilMs)
      : await replayArchive(db.admin, folder, untilMs)
  } catch (error) {
    if (error instanceof ArchiveError) throw new OpsError('refused', error.message)
    throw error
  } finally {
    await db.close()
  }
}
