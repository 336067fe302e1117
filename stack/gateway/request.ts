import type { Argument, Command } from './resp.ts'

/** The request itself is wrong; `status` and the message go to the caller. */
export class RequestError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** The command in a body such as `["SET", "foo", "bar", "EX", 100]`. */
export function parseCommand(body: Buffer): Command {
  return commandOf(parseArray(body, 'a JSON array with the command and its arguments'))
}

/** The commands in a body such as `[["SET", "a", 1], ["GET", "a"]]`. */
export function parseCommands(body: Buffer): Command[] {
  const rows = parseArray(body, 'a JSON array of commands, each an array')
  if (rows.length === 0) throw new RequestError(400, 'ERR empty pipeline: send at least one command')
  return rows.map((row) => {
    if (!Array.isArray(row))
      throw new RequestError(400, 'ERR each command of a pipeline must be a JSON array')
    return commandOf(row)
  })
}

/**
 * The command in a path such as `/set/foo/bar`. The body, byte for byte, follows as the next argument; the
 * query's parameters other than `_token` follow that, so that `POST /set/foo?EX=100` can carry a value of any
 * bytes.
 */
export function parsePathCommand(path: string, query: string, body: Buffer): Command {
  const command: Command = path.replace(/\/+$/, '').slice(1).split('/').map(decode)
  if (body.length > 0) command.push(body)
  for (const parameter of query.split('&')) {
    const equals = parameter.indexOf('=')
    const name = equals < 0 ? parameter : parameter.slice(0, equals)
    if (name === '' || name === '_token') continue
    command.push(decodeQuery(name))
    if (equals >= 0) command.push(decodeQuery(parameter.slice(equals + 1)))
  }
  return command
}

/** The value of `_token` in a query, if it is there. */
export function tokenInQuery(query: string): string | undefined {
  for (const parameter of query.split('&')) {
    if (parameter.startsWith('_token=')) return decodeQuery(parameter.slice('_token='.length))
  }
  return undefined
}

/** Decodes one percent-encoded segment of a path. */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new RequestError(400, 'ERR the path or query is not valid percent-encoded UTF-8')
  }
}

function decodeQuery(text: string): string {
  return decode(text.replaceAll('+', ' '))
}

function parseArray(body: Buffer, expected: string): unknown[] {
  const text = body.toString()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new RequestError(400, `ERR the request body is not valid JSON: send ${expected}`)
  }
  if (!Array.isArray(value)) throw new RequestError(400, `ERR the request body must be ${expected}`)
  return hasFragileNumber(value) ? numbersAsWritten(text) : value
}

function commandOf(row: unknown[]): Command {
  if (row.length === 0) throw new RequestError(400, 'ERR empty command')
  for (let i = 0; i < row.length; i++) {
    const arg = row[i]
    if (typeof arg !== 'string') row[i] = argumentOf(arg)
  }
  return row as Command
}

function argumentOf(value: unknown): Argument {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (value === null) throw new RequestError(400, 'ERR null args are not supported')
  throw new RequestError(400, 'ERR unsupported arg type: send strings, numbers or booleans')
}

/** Whether a number would not come out as it was written, such as an id beyond 2^53. */
function hasFragileNumber(value: unknown[]): boolean {
  return value.some((item) =>
    Array.isArray(item) ? hasFragileNumber(item) : typeof item === 'number' && !Number.isSafeInteger(item),
  )
}

type SourceReviver = (key: string, value: unknown, context: { source?: string }) => unknown
const keepSource: SourceReviver = (_key, value, { source }) => (typeof value === 'number' ? source : value)

function numbersAsWritten(text: string): unknown[] {
  return JSON.parse(text, keepSource as (key: string, value: unknown) => unknown)
}
