--[[
Decides up to 64 claims on one bucket, all in this one step.

KEYS  1 gate (hash)   2 users (hash)   3 log (stream)
ARGV  1           the instant to decide at, ms, or '' for the server's clock
      2 … n+1     user ids
      n+2 … 2n+1  the claims in the same order, 36 characters each: rest of the request id (13)
                  key fingerprint (9) params fingerprint (4) token id (9) state (A, or V: held for review)

Reply three lines:
      epoch remaining lease_until now starts_at ends_at retry_ms
      one letter a claim (schema/decision.ts)
      for each Y in order, 21 characters: the packed request id of the first acceptance

Precedence, first match wins: N not ready · Y replay, M same key with other parameters · T token used ·
V voided, E ended, P paused · S not started, E ended · B no lease now · L limit reached ·
O sold out (B while the campaign has stock in other buckets) · B drip or pace · A accepted.
A user's earlier claims of the same call count like those of earlier calls.

All checks come before the first write of an acceptance, and XADD, the only write whose key was not read before, comes first:
an error leaves nothing behind.
]]
local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]
local n = (#ARGV - 1) / 2

local gate = redis.call('HMGET', gate_key, 'state', 'epoch', 'rule_version', 'starts_at', 'ends_at',
  'per_user_limit', 'remaining', 'accepted', 'lease_until', 'final', 'drip', 'pace', 'pace_state', 'returned',
  'lease_from')
local state = gate[1]
if not state then
  return '0 0 0 0 0 0 1000\n' .. string.rep('N', n) .. '\n'
end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local limit, remaining, accepted = tonumber(gate[6]), tonumber(gate[7]), tonumber(gate[8])
local final = gate[10] == '1'

-- What every claim that is new to its user gets, whoever the user is; false while the gate is open.
local closed = false
if state == 'VOIDED' then closed = 'V'
elseif state == 'ENDED' then closed = 'E'
elseif state == 'PAUSED' then closed = 'P'
elseif now < tonumber(gate[4]) then closed = 'S'
elseif now >= tonumber(gate[5]) then closed = 'E'
elseif now >= tonumber(gate[9]) then closed = 'B'
elseif gate[15] and now < tonumber(gate[15]) then
  -- The clock stepped back since the lease was given, and would come to it again later: it is over for good.
  closed, gate[9] = 'B', '0'
  redis.call('HSET', gate_key, 'lease_until', '0')
end

-- How many more may be accepted now by drip and pace. 2^53 where there is no such bound.
local released, drip_at, drip_every = 9007199254740992, 0, 1
if gate[11] and gate[11] ~= '' then
  local initial, at, every, amount = string.match(gate[11], '^(%d+):(%d+):(%d+):(%d+)$')
  drip_at, drip_every = tonumber(at), tonumber(every)
  released = tonumber(initial) - (accepted - tonumber(gate[14]))
  if now >= drip_at then
    released = released + (math.floor((now - drip_at) / drip_every) + 1) * tonumber(amount)
  end
end
local tokens, pace_per_s, pace_at = 9007199254740992, nil, now
if gate[12] and gate[12] ~= '' then
  local per_s, burst = string.match(gate[12], '^(%d+):(%d+)$')
  pace_per_s, burst = tonumber(per_s), tonumber(burst)
  -- Thousandths of a token, so that low paces lose nothing between calls.
  local held, at = string.match(gate[13] or '', '^(%d+):(%d+)$')
  held, at = tonumber(held) or burst * 1000, tonumber(at) or now
  -- A clock that steps back adds nothing, and nothing twice when it comes forward again.
  pace_at = math.max(now, at)
  tokens = math.min(burst * 1000, held + (pace_at - at) * pace_per_s)
end

local records = redis.call('HMGET', users_key, unpack(ARGV, 2, n + 1))

local sub = string.sub
local letters, replays, replay_count = {}, {}, 0
local entry, fields, width = {}, {}, 0
local fresh, stamp = {}, nil

for i = 1, n do
  local user, claim = ARGV[i + 1], ARGV[n + 1 + i]
  local record = fresh[user] or records[i]
  local letter = nil
  local held = 0
  if record then
    local key, token = sub(claim, 14, 22), sub(claim, 27, 35)
    local token_used = false
    for at = 1, #record, 44 do
      if sub(record, at + 21, at + 29) == key then
        if sub(record, at + 30, at + 33) == sub(claim, 23, 26) then
          letter = 'Y'
          replay_count = replay_count + 1
          replays[replay_count] = sub(record, at, at + 20)
        else
          letter = 'M'
        end
        break
      end
      if sub(record, at + 34, at + 42) == token then token_used = true end
      if sub(record, at + 43, at + 43) ~= 'R' then held = held + 1 end
    end
    if not letter and token_used then letter = 'T' end
  end
  if not letter then
    if closed then letter = closed
    elseif held >= limit then letter = 'L'
    elseif remaining <= 0 then letter = final and 'O' or 'B'
    elseif released <= 0 or tokens < 1000 then letter = 'B'
    else
      letter = 'A'
      if not stamp then
        -- 48 bits of time in the six-bit alphabet of schema/sixbit.ts.
        local digits = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
        local rest = now
        stamp = ''
        for _ = 1, 8 do
          local digit = rest % 64
          stamp = sub(digits, digit + 1, digit + 1) .. stamp
          rest = (rest - digit) / 64
        end
      end
      local mine = stamp .. claim
      width = width + 2
      entry[width - 1], entry[width] = user, mine
      if record then mine = record .. mine end
      fields[width - 1], fields[width] = user, mine
      fresh[user] = mine
      remaining, accepted = remaining - 1, accepted + 1
      released, tokens = released - 1, tokens - 1000
    end
  end
  letters[i] = letter
end

if width > 0 then
  redis.call('XADD', log_key, '*', 'v', gate[3] .. ':' .. gate[2], unpack(entry))
  redis.call('HSET', users_key, unpack(fields))
  local left, taken = string.format('%.0f', remaining), string.format('%.0f', accepted)
  if pace_per_s then
    redis.call('HSET', gate_key, 'remaining', left, 'accepted', taken,
      'pace_state', string.format('%.0f:%.0f', tokens, pace_at))
  else
    redis.call('HSET', gate_key, 'remaining', left, 'accepted', taken)
  end
end

-- When a claim that got B should come back: why it was busy, in the order of the checks above.
local retry = 1000
if closed == 'B' then retry = 1000
elseif remaining <= 0 then retry = 200
elseif released <= 0 then
  retry = now < drip_at and drip_at - now or drip_every - (now - drip_at) % drip_every
elseif tokens < 1000 then
  retry = math.ceil((1000 - tokens) / math.max(pace_per_s, 1))
end

return gate[2] .. ' ' .. string.format('%.0f', remaining) .. ' ' .. gate[9] .. ' ' .. string.format('%.0f', now)
  .. ' ' .. gate[4] .. ' ' .. gate[5] .. ' ' .. string.format('%.0f', retry)
  .. '\n' .. table.concat(letters) .. '\n' .. table.concat(replays)
