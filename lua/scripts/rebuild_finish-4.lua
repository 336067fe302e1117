--[[
Opens a closed bucket with what the ledger says, under a new epoch and without a lease. Transfers that touched the
bucket are put back too, so that one in transit is still counted once.

KEYS  1 gate (hash)   2 users (hash)   3 log (stream)   4 moves (hash)
ARGV  1 state  2 epoch  3 config_version  4 rule_version  5 starts_at  6 ends_at  7 per_user_limit
      8 allocated  9 remaining  10 accepted  11 settled  12 returned  13 final  14 drip  15 pace
      16 number of users with records ('' to leave it unchecked)   17 watermark: the last log entry the ledger knows,
      or ''   18 … transfer id, signed amount, and so on

Reply 'rebuilt', 'open' (there is a gate), 'unsettled' (the log has entries: drain them first) or 'incomplete' (not
all users' records are here: Redis lost some again meanwhile, so begin anew).
]]
local gate_key, users_key, log_key, moves_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

if redis.call('EXISTS', gate_key) == 1 then return 'open' end
if redis.call('XLEN', log_key) > 0 then return 'unsettled' end
if ARGV[16] ~= '' and redis.call('HLEN', users_key) ~= tonumber(ARGV[16]) then return 'incomplete' end

-- A new log begins at 0: its next entries must come after all that the ledger has, or no watermark would tell them
-- apart. The one that is added only to be deleted leaves its id behind; where the log is further on, it is refused.
if ARGV[17] ~= '' then
  local added = redis.pcall('XADD', log_key, ARGV[17], 'w', '')
  if type(added) == 'string' then redis.call('XDEL', log_key, ARGV[17]) end
end

redis.call('DEL', moves_key)
for from = 18, #ARGV, 2000 do
  redis.call('HSET', moves_key, unpack(ARGV, from, math.min(from + 1999, #ARGV)))
end
-- See prime-3: a long value keeps the gate a hash table.
local about = 'The gate of one slice of a campaign: written by Tidegate alone, rebuilt from its ledger.'
redis.call('HSET', gate_key, 'about', about, 'state', ARGV[1], 'epoch', ARGV[2], 'config_version', ARGV[3],
  'rule_version', ARGV[4], 'starts_at', ARGV[5], 'ends_at', ARGV[6], 'per_user_limit', ARGV[7],
  'allocated', ARGV[8], 'remaining', ARGV[9], 'accepted', ARGV[10], 'settled', ARGV[11],
  'returned', ARGV[12], 'lease_until', '0', 'final', ARGV[13], 'drip', ARGV[14], 'pace', ARGV[15])
return 'rebuilt'
