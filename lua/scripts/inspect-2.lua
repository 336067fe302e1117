--[[
One user's acceptances in a bucket, for a status answer while the core is away, and for support.

KEYS  1 gate (hash)   2 users (hash)
ARGV  1 user id

Reply the user's packed records one after the other ('' for none), or 'not_ready'.
]]
if redis.call('EXISTS', KEYS[1]) == 0 then return 'not_ready' end
return redis.call('HGET', KEYS[2], ARGV[1]) or ''
