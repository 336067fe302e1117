import { type Bucket, gateKey, usersKey } from './keys.ts'
import { expectParts } from './reply.ts'
import { ArbiterError, type ScriptRunner } from './runner.ts'
import { scripts } from './scripts.generated.ts'

export interface HoldersPage {
  epoch: number
  /** Stock left in the bucket when the page was read. */
  remaining: number
  /** Of the next page; `0` after the last. */
  cursor: string
  /** Users with an acceptance in the bucket; one may come again on a later page. */
  userIds: string[]
}

/**
 * One page of the users who have acceptances in a bucket, about `count` of them. Pages that all name the same epoch,
 * with nothing remaining, are complete. Undefined: there is no gate. @throws ArbiterError
 */
export async function holders(
  runner: ScriptRunner,
  bucket: Bucket,
  cursor: string,
  count: number,
): Promise<HoldersPage | undefined> {
  const reply = await runner.run(
    scripts.holders,
    [gateKey(bucket), usersKey(bucket)],
    [cursor, String(count)],
  )
  if (reply === 'not_ready') return undefined
  const [head, ...lines] = reply.split('\n')
  const [epoch, remaining, next] = expectParts(head!, 3, 'holders') as [string, string, string]
  if (!/^\d+$/.test(epoch) || !/^\d+$/.test(remaining) || !/^\d+$/.test(next))
    throw new ArbiterError('garbled', 'holders: unexpected reply')
  return {
    epoch: Number(epoch),
    remaining: Number(remaining),
    cursor: next,
    userIds: lines.map(unescapeLine),
  }
}

function unescapeLine(line: string): string {
  return line.includes('%') ? line.replaceAll('%0A', '\n').replaceAll('%25', '%') : line
}
