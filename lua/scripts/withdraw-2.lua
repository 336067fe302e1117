--[[
Takes unsold stock out of a bucket: for another bucket, or back to the unallocated stock. Once per id.

KEYS  1 gate (hash)   2 moves (hash)
ARGV  1 id of the transfer   2 the most to take

Reply 'moved n' with what was taken (0 when there was none), 'already n' for an id done before, or 'not_ready'.
]]
local gate_key, moves_key = KEYS[1], KEYS[2]
local id, most = ARGV[1], tonumber(ARGV[2])

local gate = redis.call('HMGET', gate_key, 'remaining', 'allocated', 'epoch')
if not gate[1] then return 'not_ready' end
local done = redis.call('HGET', moves_key, id)
if done then return 'already ' .. string.gsub(done, '[+-]', '') end

local remaining = tonumber(gate[1])
local amount = math.min(most, remaining)
redis.call('HSET', moves_key, id, string.format('-%.0f', amount))
redis.call('HSET', gate_key, 'remaining', string.format('%.0f', remaining - amount),
  'allocated', string.format('%.0f', tonumber(gate[2]) - amount),
  'epoch', string.format('%.0f', tonumber(gate[3]) + 1))
return string.format('moved %.0f', amount)
