import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { RunRecord } from './record.ts'

/** @throws when the file is not a record of a version that we know. */
export function readRecord(file: string): RunRecord {
  const record = JSON.parse(readFileSync(file, 'utf8')) as RunRecord
  if (record.version !== 1) throw new Error(`${file} is not a load test's record of version 1`)
  return record
}

/** Writes JSON that a person can read and git can compare. */
export function writeJson(file: string, value: unknown): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`)
}

/** Adds a part to the record in `file`, which another command began. @throws when there is none. */
export function mergeInto(file: string, part: Partial<RunRecord>): void {
  if (!existsSync(file))
    throw new Error(`There is no record ${file}: make one with loadtest -- all --json ${file}`)
  writeJson(file, { ...readRecord(file), ...part })
}
