/**
 * The check that Upstash makes and stock Redis does not: a script that declares `allow-key-locking` may touch
 * only the keys passed in KEYS (upstash.com/docs/redis/features/key-locking, "Rules for allow-key-locking").
 *
 * It is done in Lua, by a `redis` table that stands in front of the real one. Which arguments of a command
 * are keys is known from `COMMAND` for the commands whose names occur in the script; for any other, such as
 * one whose keys move or whose name is computed, `COMMAND GETKEYS` is asked at run time, which is right but
 * slow, and free of charge.
 */

/**
 * Positions of a command's keys as `COMMAND` tells them: first and last argument (negative: from the end) and
 * step.
 */
export interface KeyPositions {
  first: number
  last: number
  step: number
}

/** Positions by lower-case command name; commands without fixed positions are absent. */
export type KeyTable = ReadonlyMap<string, KeyPositions>

/** Writes that Upstash refuses in a key-locking script since they need the whole database. */
const DATABASE_WIDE_WRITES = new Set(['flushall', 'flushdb', 'swapdb'])

/**
 * Reads the reply of `COMMAND` into a table. Commands without keys have first = 0 and are kept, unless their
 * keys move (`movablekeys`): those must be asked for.
 */
export function readKeyTable(reply: readonly CommandInfo[]): KeyTable {
  const table = new Map<string, KeyPositions>()
  for (const [name, , flags, first, last, step] of reply) {
    if (!flags.includes('movablekeys')) table.set(name.toLowerCase(), { first, last, step })
  }
  return table
}

/** The first six fields of an entry of `COMMAND`: name, arity, flags, first key, last key, step. */
export type CommandInfo = [string, number, string[], number, number, number]

/** One line of Lua to stand before the script, so that line numbers in its errors stay the caller's. */
export function strictPrelude(script: string, table: KeyTable): string {
  return PRELUDE.replace('@POSITIONS@', positionsOf(script, table))
}

/** The script's own spelling is listed too, since a hit in the table saves lower-casing at every call. */
function positionsOf(script: string, table: KeyTable): string {
  const entries = new Map<string, string>()
  for (const [word] of script.matchAll(/[A-Za-z][A-Za-z.]+/g)) {
    const name = word.toLowerCase()
    const positions = table.get(name)
    if (positions === undefined || DATABASE_WIDE_WRITES.has(name)) continue
    const { first, last, step } = positions
    const value = first === 1 && last === 1 ? '1' : first === 0 ? '0' : `{${first},${last},${step}}`
    entries.set(word, value)
    entries.set(name, value)
  }
  return [...entries].map(([word, value]) => `['${word}']=${value}`).join(',')
}

const PRELUDE = `
local redis = (function()
  local real, position, declared = redis, {@POSITIONS@}, {}
  local call = real.call
  for i = 1, #KEYS do declared[KEYS[i]] = true end
  local function refusal(key)
    return {err = "ERR Dynamic keys are not allowed in Lua scripts when 'allow-key-locking' flag is set. Key was: " .. key}
  end
  local function undeclared(name, ...)
    local at = position[name]
    if at == 1 then
      local key = ...
      if key ~= nil and not declared[key] and not declared[tostring(key)] then return refusal(tostring(key)) end
      return nil
    end
    if at == 0 then return nil end
    if at == nil then
      local lower = string.lower(tostring(name))
      if lower == 'flushall' or lower == 'flushdb' or lower == 'swapdb' then
        return {err = "ERR Database-wide command '" .. lower .. "' is not allowed in Lua scripts when 'allow-key-locking' flag is set"}
      end
      local keys = real.pcall('COMMAND', 'GETKEYS', name, ...)
      if keys.err then return nil end
      for i = 1, #keys do if not declared[keys[i]] then return refusal(keys[i]) end end
      return nil
    end
    local count = select('#', ...)
    local last = at[2]
    if last < 0 then last = count + 1 + last end
    for i = at[1], math.min(last, count), at[3] do
      local key = tostring((select(i, ...)))
      if not declared[key] then return refusal(key) end
    end
    return nil
  end
  local front = {}
  front.call = function(...)
    local found = undeclared(...)
    if found then error(found, 0) end
    return call(...)
  end
  front.pcall = function(...)
    local found = undeclared(...)
    if found then return found end
    return real.pcall(...)
  end
  return setmetatable(front, {__index = real})
end)()
`
  .replace(/\s*\n\s*/g, ' ')
  .trim()
  .concat(' ')
