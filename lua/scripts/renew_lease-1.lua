--[[
Lets a bucket accept for lease_ms from now by the server's clock, not before it, and says whether the campaign has stock in
other buckets. When it has some again, the epoch grows, so that sold-out markers of this bucket lose their hold.

KEYS  1 gate (hash)
ARGV  1 now ('' for the server's clock)  2 lease_ms (0 ends the lease)  3 final ('1': no stock elsewhere, '0')

Reply 'now epoch lease_until remaining accepted settled config_version state', or 'not_ready'.
]]
local gate_key = KEYS[1]
local lease_ms = tonumber(ARGV[2])

local gate = redis.call('HMGET', gate_key, 'epoch', 'final', 'remaining', 'accepted', 'settled',
  'config_version', 'state')
if not gate[1] then return 'not_ready' end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local epoch = gate[1]
if gate[2] == '1' and ARGV[3] == '0' then epoch = string.format('%.0f', tonumber(epoch) + 1) end
local lease_until = string.format('%.0f', now + lease_ms)

redis.call('HSET', gate_key, 'lease_from', string.format('%.0f', now), 'lease_until', lease_until, 'final', ARGV[3], 'epoch', epoch)
return string.format('%.0f', now) .. ' ' .. epoch .. ' ' .. lease_until .. ' ' .. gate[3] .. ' ' .. gate[4]
  .. ' ' .. gate[5] .. ' ' .. gate[6] .. ' ' .. gate[7]
