--[[
Closes a bucket for a rebuild from the ledger: every claim gets NOT_READY until the rebuild is finished. What the
log still holds stays, to be drained first: it may be the only word of an acceptance.

KEYS  1 gate (hash)   2 users (hash)   3 log (stream)
ARGV  1 consumer group

Reply: the number of entries still in the log.
]]
local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]

local made = redis.pcall('XGROUP', 'CREATE', log_key, ARGV[1], '0', 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return redis.error_reply(made.err) end
redis.call('DEL', gate_key, users_key)
return string.format('%.0f', redis.call('XLEN', log_key))
