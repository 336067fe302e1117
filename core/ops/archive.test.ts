import assert from 'node:assert/strict'
import { test } from 'node:test'
import { migrate } from '../../schema/db/migrate.ts'
import { freshDatabase, temporaryFolder } from '../../stack/testing.ts'
import { runOps } from './run.ts'

test('archive exports a ledger to a folder and fills an empty one from it; a wrong call says what to give', async () => {
  const database = await freshDatabase()
  await migrate(database.url)
  const lines: string[] = []
  const say = (line: string) => lines.push(line)
  const io = {
    env: { DATABASE_URL: database.url },
    home: '/nowhere',
    out: say,
    err: say,
    readStdin: () => '',
  }
  const folder = temporaryFolder('ops-archive')
  assert.equal(await runOps(['archive', 'export', '--folder', folder, '--json'], io), 0, lines.join('\n'))
  assert.equal(JSON.parse(lines.at(-1)!).files[0].name, 'reference.jsonl.gz')
  assert.equal(await runOps(['archive', 'replay', '--folder', folder, '--json'], io), 0, lines.join('\n'))
  assert.equal(JSON.parse(lines.at(-1)!).issued, 0)
  assert.equal(await runOps(['archive', 'replay', '--folder', `${folder}/none`], io), 1)
  assert.equal(await runOps(['archive', 'export'], io), 2)
  assert.equal(await runOps(['archive', 'export', '--folder', folder], { ...io, env: {} }), 2)
  await database.drop()
})
