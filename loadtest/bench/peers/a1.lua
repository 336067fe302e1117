-- The script of article A1, §3.2, as printed there.
local stock = tonumber(redis.call('GET', KEYS[1]) or 0)
if stock <= 0 then
  return -1
end
local hasClaimed = redis.call('SISMEMBER', KEYS[2], ARGV[1])
if hasClaimed == 1 then
  return -2
end
local claimedCount = tonumber(redis.call('SCARD', KEYS[2]) or 0)
local limitCount = tonumber(ARGV[2] or 1)
if claimedCount >= limitCount then
  return -3
end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[1], 86400)
redis.call('EXPIRE', KEYS[2], 86400)
return 1
