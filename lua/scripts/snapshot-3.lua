--[[
All of a bucket's terms of the stock identity at one instant, with the watermark that they belong to: the id of
the last entry ever added to the log. What the ledger holds up to that entry is on its side, the rest is here.

KEYS  1 gate (hash)   2 users (hash)   3 log (stream)
ARGV  1 now ('' for the server's clock)

Reply 'now state epoch config_version rule_version allocated remaining accepted settled returned lease_until
final users entries watermark', or 'not_ready'.
]]
local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]

local gate = redis.call('HMGET', gate_key, 'state', 'epoch', 'config_version', 'rule_version', 'allocated',
  'remaining', 'accepted', 'settled', 'returned', 'lease_until', 'final')
if not gate[1] then return 'not_ready' end

local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end
local entries, watermark = 0, '0-0'
if redis.call('EXISTS', log_key) == 1 then
  entries = redis.call('XLEN', log_key)
  local info = redis.call('XINFO', 'STREAM', log_key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then watermark = info[i + 1] end
  end
end
return now .. ' ' .. table.concat(gate, ' ') .. ' ' .. redis.call('HLEN', users_key) .. ' ' .. entries
  .. ' ' .. watermark
