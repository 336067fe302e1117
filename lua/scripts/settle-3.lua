--[[
Settles what the ledger has committed: marks the users' records, acknowledges and deletes the log entries.
Repeating it changes nothing: only a record that is still open (A, V or B) moves.

KEYS  1 gate (hash)   2 users (hash)   3 log (stream)
ARGV  1 consumer group  2 number of entries e  3 … e+2 entry ids
      then for each claim: user id, packed request id (21), new state letter (D, X or V)

Reply 'settled missing': records that left the unsettled ones now, and claims without a record (after a loss of Redis).
]]
local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]
local group, entries = ARGV[1], tonumber(ARGV[2])
local first = entries + 3
local count = (#ARGV - first + 1) / 3

local settled, missing = 0, 0
local fields, width = {}, 0
if count > 0 then
  local users, records = {}, {}
  for i = 1, count do users[i] = ARGV[first + (i - 1) * 3] end
  -- Chunks keep unpack within Lua's stack.
  for from = 1, count, 1000 do
    local part = redis.call('HMGET', users_key, unpack(users, from, math.min(from + 999, count)))
    for i = 1, #part do records[from + i - 1] = part[i] end
  end
  local fresh = {}
  for i = 1, count do
    local user, request, letter = users[i], ARGV[first + i * 3 - 2], ARGV[first + i * 3 - 1]
    local record = fresh[user] or records[i]
    local found = false
    if record then
      for at = 1, #record, 44 do
        if string.sub(record, at, at + 20) == request then
          found = true
          local old = string.sub(record, at + 43, at + 43)
          if (old == 'A' or old == 'V' or old == 'B') and old ~= letter then
            record = string.sub(record, 1, at + 42) .. letter .. string.sub(record, at + 44)
            fresh[user] = record
            width = width + 2
            fields[width - 1], fields[width] = user, record
            -- A ballot entry holds no stock; one held for review still does.
            if letter ~= 'V' and old ~= 'B' then settled = settled + 1 end
          end
          break
        end
      end
    end
    if not found then missing = missing + 1 end
  end
end

for from = 1, width, 2000 do
  redis.call('HSET', users_key, unpack(fields, from, math.min(from + 1999, width)))
end
if settled > 0 and redis.call('EXISTS', gate_key) == 1 then
  redis.call('HINCRBY', gate_key, 'settled', string.format('%.0f', settled))
end
if entries > 0 then
  redis.call('XACK', log_key, group, unpack(ARGV, 3, entries + 2))
  redis.call('XDEL', log_key, unpack(ARGV, 3, entries + 2))
end
return string.format('%.0f %.0f', settled, missing)
