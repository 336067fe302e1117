--[[
Applies a newer configuration: state (pause, resume, end, void), window, limit, rule version, drip, pace.
Stock is never part of it. An older version than the gate's is ignored, the same one is done already.

KEYS  1 gate (hash)
ARGV  1 config_version  2 state  3 rule_version  4 starts_at  5 ends_at  6 per_user_limit  7 drip  8 pace

Reply 'applied', 'same', 'stale' or 'not_ready'.
]]
local gate_key = KEYS[1]
local version = tonumber(ARGV[1])

local current = tonumber(redis.call('HGET', gate_key, 'config_version'))
if not current then return 'not_ready' end
if version < current then return 'stale' end
if version == current then return 'same' end

redis.call('HSET', gate_key, 'config_version', ARGV[1], 'state', ARGV[2], 'rule_version', ARGV[3],
  'starts_at', ARGV[4], 'ends_at', ARGV[5], 'per_user_limit', ARGV[6], 'drip', ARGV[7], 'pace', ARGV[8])
return 'applied'
