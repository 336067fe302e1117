--[[
A page of the users who have acceptances in a bucket, for the gate: while a bucket is sold out, everybody else can be
refused without asking. A scan that began and ended in the same sold-out epoch has them all, since only an acceptance
adds one, and stock can't come back without a new epoch.

KEYS  1 gate (hash)   2 users (hash)
ARGV  1 cursor: '0' to begin, then that of the last reply   2 about how many users to look at

Reply 'epoch remaining cursor' (cursor '0': the last page) and then a line for each user id, in which % and the line
feed stand as %25 and %0A; or 'not_ready'. A user may come twice.
]]
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'remaining')
if not gate[1] then return 'not_ready' end
local page = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
local fields = page[2]
local lines = { gate[1] .. ' ' .. gate[2] .. ' ' .. page[1] }
local escapes = { ['%'] = '%25', ['\n'] = '%0A' }
for i = 1, #fields, 2 do
  lines[#lines + 1] = (string.gsub(fields[i], '[%%\n]', escapes))
end
return table.concat(lines, '\n')
