import type { Argument, Command } from './resp.ts'

/**
 * Commands that a shared connection must never carry: they change the connection's state, take it over, or
 * keep it waiting. Upstash refuses them over REST too, in these words.
 */
const CONNECTION_BOUND = new Set(
  [
    ['AUTH', 'HELLO', 'RESET', 'QUIT', 'SELECT', 'CLIENT', 'MONITOR', 'READONLY', 'READWRITE', 'ASKING'],
    ['MULTI', 'EXEC', 'DISCARD', 'WATCH', 'UNWATCH'],
    ['SUBSCRIBE', 'UNSUBSCRIBE', 'PSUBSCRIBE', 'PUNSUBSCRIBE', 'SSUBSCRIBE', 'SUNSUBSCRIBE'],
    ['BLPOP', 'BRPOP', 'BRPOPLPUSH', 'BLMOVE', 'BLMPOP', 'BZPOPMIN', 'BZPOPMAX', 'BZMPOP', 'WAIT', 'WAITAOF'],
  ].flat(),
)

/** Commands that manage the server; Upstash has no such server to manage. */
const SERVER_BOUND = new Set(
  [
    ['SHUTDOWN', 'DEBUG', 'MODULE', 'SAVE', 'BGSAVE', 'BGREWRITEAOF', 'CLUSTER', 'MIGRATE', 'SWAPDB', 'MOVE'],
    [
      'REPLICAOF',
      'SLAVEOF',
      'FAILOVER',
      'SYNC',
      'PSYNC',
      'REPLCONF',
      'RESTORE-ASKING',
      'PFDEBUG',
      'PFSELFTEST',
    ],
  ].flat(),
)

const SERVER_BOUND_SUBCOMMANDS = new Map([
  ['CONFIG', new Set(['SET', 'REWRITE', 'RESETSTAT'])],
  ['SCRIPT', new Set(['DEBUG', 'KILL'])],
  ['FUNCTION', new Set(['KILL'])],
])

/** Why the command may not be sent, in Upstash's words; undefined when it may. */
export function refusalOf(command: Command): string | undefined {
  const name = upper(command[0])
  if (CONNECTION_BOUND.has(name)) return notOverRest(name)
  if (SERVER_BOUND.has(name)) return notAvailable(name)
  if (name === 'XREAD') return blocks(command, 1) ? notOverRest(name) : undefined
  if (name === 'XREADGROUP') return blocks(command, 4) ? notOverRest(name) : undefined
  const subcommand = upper(command[1])
  return SERVER_BOUND_SUBCOMMANDS.get(name)?.has(subcommand)
    ? notAvailable(`${name} ${subcommand}`)
    : undefined
}

/**
 * A command's name or option in upper case, however it was sent: the last argument may come as bytes of a
 * body.
 */
export function upper(arg: Argument | undefined): string {
  return arg === undefined ? '' : arg.toString().toUpperCase()
}

/** Whether BLOCK stands among the options, which end at STREAMS: a stream may be called BLOCK. */
function blocks(command: Command, from: number): boolean {
  for (let i = from; i < command.length; i++) {
    const option = upper(command[i])
    if (option === 'BLOCK') return true
    if (option === 'STREAMS') return false
  }
  return false
}

function notOverRest(name: string): string {
  return `ERR Command "${name}" is not allowed in REST or it has a special context path`
}

function notAvailable(name: string): string {
  return `ERR Command is not available: '${name}'. See https://upstash.com/docs/redis/overall/rediscompatibility for details`
}
