--[[
Gives one request's stock back, at most once, and takes it off its user's count. Only for a request that is
certainly not a coupon: a delivered one is refused.

KEYS  1 gate (hash)   2 users (hash)
ARGV  1 user id   2 packed request id (21)

Reply 'returned', 'already', 'delivered', 'entry' (of a ballot: it holds no stock), 'missing' (no such record: after
a loss of Redis the rebuild counts it) or 'not_ready'.
]]
local gate_key, users_key = KEYS[1], KEYS[2]
local user, request = ARGV[1], ARGV[2]

local gate = redis.call('HMGET', gate_key, 'remaining', 'returned', 'settled', 'epoch')
if not gate[1] then return 'not_ready' end
local record = redis.call('HGET', users_key, user)
if not record then return 'missing' end

for at = 1, #record, 44 do
  if string.sub(record, at, at + 20) == request then
    local old = string.sub(record, at + 43, at + 43)
    if old == 'R' then return 'already' end
    if old == 'D' then return 'delivered' end
    if old == 'B' then return 'entry' end
    local settled = tonumber(gate[3])
    if old ~= 'X' then settled = settled + 1 end
    redis.call('HSET', users_key, user, string.sub(record, 1, at + 42) .. 'R' .. string.sub(record, at + 44))
    redis.call('HSET', gate_key, 'remaining', string.format('%.0f', tonumber(gate[1]) + 1),
      'returned', string.format('%.0f', tonumber(gate[2]) + 1), 'settled', string.format('%.0f', settled),
      'epoch', string.format('%.0f', tonumber(gate[4]) + 1))
    return 'returned'
  end
end
return 'missing'
