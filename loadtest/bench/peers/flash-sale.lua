-- The flash-sale script that tutorials pass on: a stock string, a set of users, an entry in a stream per order.
-- KEYS 1 stock 2 users 3 orders; ARGV 1 user 2 order id 3 voucher
if tonumber(redis.call('GET', KEYS[1]) or '0') <= 0 then
  return 1
end
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then
  return 2
end
redis.call('INCRBY', KEYS[1], -1)
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'userId', ARGV[1], 'voucherId', ARGV[3], 'id', ARGV[2])
return 0
