import { type Bucket, gateKey, logKey, usersKey } from './keys.ts'
import { expectWord } from './reply.ts'
import type { ScriptRunner } from './runner.ts'
import { scripts } from './scripts.generated.ts'

/**
 * Takes up again an acceptance that Redis lost, by its receipt; the drain then issues it. Safe to repeat.
 * @param record the whole packed record (schema/acceptance.ts) with the receipt's request id, state A.
 */
export async function honour(
  runner: ScriptRunner,
  bucket: Bucket,
  userId: string,
  record: string,
): Promise<'accepted' | 'already' | 'limit' | 'sold_out' | 'not_ready'> {
  const keys = [gateKey(bucket), usersKey(bucket), logKey(bucket)]
  const reply = await runner.run(scripts.honour, keys, [userId, record])
  return expectWord(reply, ['accepted', 'already', 'limit', 'sold_out', 'not_ready'], 'honour')
}
