import { isUtf8 } from 'node:buffer'
import { refusalOf, upper } from './commands.ts'
import { errorText, isError, itemsOf } from './reply.ts'
import { RequestError } from './request.ts'
import type { Argument, Command } from './resp.ts'
import type { AdaptedScript, ScriptAliases } from './scripts.ts'

/** Sends commands on one connection, nothing of others in between; gives one frame a command. */
export type Send = (commands: readonly Command[]) => Promise<Buffer[]>

/** Turns the reply of a rewritten command into what the caller expects. */
type FinishReply = (frame: Buffer) => Buffer

interface Prepared {
  command: Command
  finish: FinishReply
}

/**
 * Runs callers' commands: refuses those that may not be sent, and keeps scripts under the caller's digests.
 */
export class Executor {
  readonly #send: Send
  readonly #aliases: ScriptAliases

  constructor(send: Send, aliases: ScriptAliases) {
    this.#send = send
    this.#aliases = aliases
  }

  /** @throws {RequestError} when the command is refused. */
  async single(command: Command): Promise<Buffer> {
    const prepared = this.#prepare(command)
    if (typeof prepared === 'string') throw new RequestError(400, prepared)
    const [frame] = (await this.#send([prepared.command])) as [Buffer]
    return prepared.finish(frame)
  }

  /**
   * One frame a command, in order. A refused command has an error in its place and the others run, as on
   * Upstash.
   */
  async pipeline(commands: readonly Command[]): Promise<Buffer[]> {
    const prepared = commands.map((command) => this.#prepare(command))
    const sent = prepared.filter((item) => typeof item !== 'string')
    const frames = sent.length > 0 ? await this.#send(sent.map((item) => item.command)) : []
    let next = 0
    return prepared.map((item) =>
      typeof item === 'string' ? Buffer.from(`-${item}\r\n`) : item.finish(frames[next++] as Buffer),
    )
  }

  /**
   * One frame a command, all run or none. Commands that fail while running leave the others standing, as in
   * Redis.
   * @throws {RequestError} when the transaction is discarded, with the first reason.
   */
  async transaction(commands: readonly Command[]): Promise<Buffer[]> {
    const prepared = commands.map((command) => {
      const item = this.#prepare(command)
      if (typeof item === 'string') throw new RequestError(400, item)
      return item
    })
    const frames = await this.#send([['MULTI'], ...prepared.map((item) => item.command), ['EXEC']])
    const items = itemsOf(frames.at(-1) as Buffer)
    if (items === undefined) throw new RequestError(400, errorText(frames.find(isError) as Buffer))
    return items.map((item, i) => (prepared[i] as Prepared).finish(item))
  }

  #prepare(command: Command): Prepared | string {
    const refusal = refusalOf(command)
    if (refusal !== undefined) return refusal
    switch (upper(command[0])) {
      case 'EVALSHA':
      case 'EVALSHA_RO':
        return this.#evalsha(command)
      case 'EVAL':
      case 'EVAL_RO':
        return this.#eval(command)
      case 'SCRIPT':
        return this.#script(command)
      default:
        return { command, finish: asItIs }
    }
  }

  #evalsha(command: Command): Prepared {
    const digest = String(command[1])
    const known = this.#aliases.resolve(digest)
    if (known === digest) return { command, finish: asItIs }
    command[1] = known
    return { command, finish: nameInErrors(known, digest) }
  }

  #eval(command: Command): Prepared {
    const adapted = this.#adapt(command[1])
    if (adapted === undefined) return { command, finish: asItIs }
    command[1] = adapted.text
    return { command, finish: nameInErrors(adapted.knownDigest, adapted.digest) }
  }

  #script(command: Command): Prepared {
    const subcommand = upper(command[1])
    if (subcommand === 'LOAD') {
      const adapted = this.#adapt(command[2])
      if (adapted === undefined) return { command, finish: asItIs }
      command[2] = adapted.text
      const loaded = Buffer.from(`$40\r\n${adapted.digest}\r\n`)
      return { command, finish: (frame) => (isError(frame) ? frame : loaded) }
    }
    if (subcommand === 'EXISTS') {
      for (let i = 2; i < command.length; i++) command[i] = this.#aliases.resolve(String(command[i]))
    }
    // Commands leave in the order in which they are prepared, so what is loaded later is kept.
    if (subcommand === 'FLUSH') this.#aliases.clear()
    return { command, finish: asItIs }
  }

  /** A script of bytes that are not UTF-8 has no text to change, and goes as it is. */
  #adapt(script: Argument | undefined): AdaptedScript | undefined {
    if (script === undefined || (typeof script !== 'string' && !isUtf8(script))) return undefined
    return this.#aliases.adapt(script.toString())
  }
}

const asItIs: FinishReply = (frame) => frame

/** Redis names the script in its errors; the caller knows it by another digest. */
function nameInErrors(known: string, callers: string): FinishReply {
  return (frame) => {
    if (!isError(frame)) return frame
    const text = frame.toString('latin1')
    return text.includes(known) ? Buffer.from(text.replaceAll(known, callers), 'latin1') : frame
  }
}
