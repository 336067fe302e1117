--[[
Puts back users' records, in parts. Only while the gate is closed.

KEYS  1 gate (hash)   2 users (hash)
ARGV  user id, packed records, and so on

Reply 'loaded', or 'open': there is a gate, nothing was changed.
]]
if redis.call('EXISTS', KEYS[1]) == 1 then return 'open' end
for from = 1, #ARGV, 2000 do
  redis.call('HSET', KEYS[2], unpack(ARGV, from, math.min(from + 1999, #ARGV)))
end
return 'loaded'
