--[[
Takes an acceptance up again that Redis lost and whose receipt was presented: its stock, its user's record, and an
entry in the log, so that the core issues it like any other. The window and the lease are no matter: it was decided
when it was accepted.

KEYS  1 gate (hash)   2 users (hash)   3 log (stream)
ARGV  1 user id   2 the whole record (44), with the request id of the receipt

Reply 'accepted', 'already' (the request is here), 'limit', 'sold_out', 'not_ready'.
]]
local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]
local user, claim = ARGV[1], ARGV[2]

local gate = redis.call('HMGET', gate_key, 'rule_version', 'epoch', 'per_user_limit', 'remaining', 'accepted')
if not gate[1] then return 'not_ready' end
local record = redis.call('HGET', users_key, user) or ''
local held = 0
for at = 1, #record, 44 do
  if string.sub(record, at, at + 20) == string.sub(claim, 1, 21) then return 'already' end
  if string.sub(record, at + 43, at + 43) ~= 'R' then held = held + 1 end
end
if held >= tonumber(gate[3]) then return 'limit' end
if tonumber(gate[4]) <= 0 then return 'sold_out' end

redis.call('XADD', log_key, '*', 'v', gate[1] .. ':' .. gate[2], user, claim)
redis.call('HSET', users_key, user, record .. claim)
redis.call('HSET', gate_key, 'remaining', string.format('%.0f', tonumber(gate[4]) - 1),
  'accepted', string.format('%.0f', tonumber(gate[5]) + 1))
return 'accepted'
