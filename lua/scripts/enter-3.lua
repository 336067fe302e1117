--[[
Records up to 64 entries to a ballot: decided like claims, but no stock is taken; the draw comes later.

KEYS  1 gate (hash)   2 users (hash)   3 log (stream)
ARGV  like claim-3, with the state B

Reply like claim-3. Precedence: N · Y, M · T · V, E, P · S, E · B no lease now · L this user entered already · A.
]]
local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]
local n = (#ARGV - 1) / 2

local gate = redis.call('HMGET', gate_key, 'state', 'epoch', 'rule_version', 'starts_at', 'ends_at',
  'remaining', 'lease_until', 'lease_from')
local state = gate[1]
if not state then
  return '0 0 0 0 0 0 1000\n' .. string.rep('N', n) .. '\n'
end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local closed = false
if state == 'VOIDED' then closed = 'V'
elseif state == 'ENDED' then closed = 'E'
elseif state == 'PAUSED' then closed = 'P'
elseif now < tonumber(gate[4]) then closed = 'S'
elseif now >= tonumber(gate[5]) then closed = 'E'
elseif now >= tonumber(gate[7]) then closed = 'B'
elseif gate[8] and now < tonumber(gate[8]) then
  -- As in claim-3: a lease that the clock stepped back from is over.
  closed, gate[7] = 'B', '0'
  redis.call('HSET', gate_key, 'lease_until', '0')
end

local sub = string.sub
local stamp, rest = '', now
local digits = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
for _ = 1, 8 do
  local digit = rest % 64
  stamp = sub(digits, digit + 1, digit + 1) .. stamp
  rest = (rest - digit) / 64
end

local records = redis.call('HMGET', users_key, unpack(ARGV, 2, n + 1))
local letters, replays, fresh, entry, width = {}, {}, {}, {}, 0
for i = 1, n do
  local user, claim = ARGV[i + 1], ARGV[n + 1 + i]
  local record = fresh[user] or records[i]
  local letter = closed or 'A'
  if record then
    -- One entry a user: there is one record.
    if sub(record, 22, 30) == sub(claim, 14, 22) then
      if sub(record, 31, 34) == sub(claim, 23, 26) then
        letter = 'Y'
        replays[#replays + 1] = sub(record, 1, 21)
      else
        letter = 'M'
      end
    elseif sub(record, 35, 43) == sub(claim, 27, 35) then letter = 'T'
    elseif not closed then letter = 'L'
    end
  end
  if letter == 'A' then
    local mine = stamp .. claim
    fresh[user] = mine
    width = width + 2
    entry[width - 1], entry[width] = user, mine
  end
  letters[i] = letter
end

if width > 0 then
  redis.call('XADD', log_key, '*', 'b', gate[3] .. ':' .. gate[2], unpack(entry))
  redis.call('HSET', users_key, unpack(entry))
  redis.call('HINCRBY', gate_key, 'entered', string.format('%.0f', width / 2))
end
return gate[2] .. ' ' .. gate[6] .. ' ' .. gate[7] .. ' ' .. string.format('%.0f', now) .. ' ' .. gate[4] .. ' '
  .. gate[5] .. ' 1000\n' .. table.concat(letters) .. '\n' .. table.concat(replays)
