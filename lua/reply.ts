import { ArbiterError } from './runner.ts'

/** Readers of script replies: what no script of ours says is an error, never guessed at. */

export function expectWord<const T extends string>(reply: string, words: readonly T[], script: string): T {
  if (!words.includes(reply as T)) throw new ArbiterError('garbled', `${script}: unexpected reply`)
  return reply as T
}

export function expectParts(reply: string, count: number, script: string): string[] {
  const parts = reply.split(' ')
  if (parts.length !== count) throw new ArbiterError('garbled', `${script}: unexpected reply`)
  return parts
}
