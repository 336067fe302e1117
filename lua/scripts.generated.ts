// Made by lua/build.ts from lua/scripts. Do not edit.
export const keyLockingLine = "#!lua flags=allow-key-locking\n"

export interface Script {
  readonly name: string
  readonly keyCount: number
  readonly source: string
  readonly sha1: string
  /** Digest of the key-locking line followed by the source. */
  readonly keyLockingSha1: string
}

export const scripts = {
  claim: {
    name: 'claim',
    keyCount: 3,
    source: "local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]\nlocal n = (#ARGV - 1) / 2\n\nlocal gate = redis.call('HMGET', gate_key, 'state', 'epoch', 'rule_version', 'starts_at', 'ends_at',\n  'per_user_limit', 'remaining', 'accepted', 'lease_until', 'final', 'drip', 'pace', 'pace_state', 'returned',\n  'lease_from')\nlocal state = gate[1]\nif not state then\n  return '0 0 0 0 0 0 1000\\n' .. string.rep('N', n) .. '\\n'\nend\n\nlocal now = tonumber(ARGV[1])\nif not now then\n  local time = redis.call('TIME')\n  now = time[1] * 1000 + math.floor(time[2] / 1000)\nend\nlocal limit, remaining, accepted = tonumber(gate[6]), tonumber(gate[7]), tonumber(gate[8])\nlocal final = gate[10] == '1'\n\n-- What every claim that is new to its user gets, whoever the user is; false while the gate is open.\nlocal closed = false\nif state == 'VOIDED' then closed = 'V'\nelseif state == 'ENDED' then closed = 'E'\nelseif state == 'PAUSED' then closed = 'P'\nelseif now < tonumber(gate[4]) then closed = 'S'\nelseif now >= tonumber(gate[5]) then closed = 'E'\nelseif now >= tonumber(gate[9]) then closed = 'B'\nelseif gate[15] and now < tonumber(gate[15]) then\n  -- The clock stepped back since the lease was given, and would come to it again later: it is over for good.\n  closed, gate[9] = 'B', '0'\n  redis.call('HSET', gate_key, 'lease_until', '0')\nend\n\n-- How many more may be accepted now by drip and pace. 2^53 where there is no such bound.\nlocal released, drip_at, drip_every = 9007199254740992, 0, 1\nif gate[11] and gate[11] ~= '' then\n  local initial, at, every, amount = string.match(gate[11], '^(%d+):(%d+):(%d+):(%d+)$')\n  drip_at, drip_every = tonumber(at), tonumber(every)\n  released = tonumber(initial) - (accepted - tonumber(gate[14]))\n  if now >= drip_at then\n    released = released + (math.floor((now - drip_at) / drip_every) + 1) * tonumber(amount)\n  end\nend\nlocal tokens, pace_per_s, pace_at = 9007199254740992, nil, now\nif gate[12] and gate[12] ~= '' then\n  local per_s, burst = string.match(gate[12], '^(%d+):(%d+)$')\n  pace_per_s, burst = tonumber(per_s), tonumber(burst)\n  -- Thousandths of a token, so that low paces lose nothing between calls.\n  local held, at = string.match(gate[13] or '', '^(%d+):(%d+)$')\n  held, at = tonumber(held) or burst * 1000, tonumber(at) or now\n  -- A clock that steps back adds nothing, and nothing twice when it comes forward again.\n  pace_at = math.max(now, at)\n  tokens = math.min(burst * 1000, held + (pace_at - at) * pace_per_s)\nend\n\nlocal records = redis.call('HMGET', users_key, unpack(ARGV, 2, n + 1))\n\nlocal sub = string.sub\nlocal letters, replays, replay_count = {}, {}, 0\nlocal entry, fields, width = {}, {}, 0\nlocal fresh, stamp = {}, nil\n\nfor i = 1, n do\n  local user, claim = ARGV[i + 1], ARGV[n + 1 + i]\n  local record = fresh[user] or records[i]\n  local letter = nil\n  local held = 0\n  if record then\n    local key, token = sub(claim, 14, 22), sub(claim, 27, 35)\n    local token_used = false\n    for at = 1, #record, 44 do\n      if sub(record, at + 21, at + 29) == key then\n        if sub(record, at + 30, at + 33) == sub(claim, 23, 26) then\n          letter = 'Y'\n          replay_count = replay_count + 1\n          replays[replay_count] = sub(record, at, at + 20)\n        else\n          letter = 'M'\n        end\n        break\n      end\n      if sub(record, at + 34, at + 42) == token then token_used = true end\n      if sub(record, at + 43, at + 43) ~= 'R' then held = held + 1 end\n    end\n    if not letter and token_used then letter = 'T' end\n  end\n  if not letter then\n    if closed then letter = closed\n    elseif held >= limit then letter = 'L'\n    elseif remaining <= 0 then letter = final and 'O' or 'B'\n    elseif released <= 0 or tokens < 1000 then letter = 'B'\n    else\n      letter = 'A'\n      if not stamp then\n        -- 48 bits of time in the six-bit alphabet of schema/sixbit.ts.\n        local digits = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'\n        local rest = now\n        stamp = ''\n        for _ = 1, 8 do\n          local digit = rest % 64\n          stamp = sub(digits, digit + 1, digit + 1) .. stamp\n          rest = (rest - digit) / 64\n        end\n      end\n      local mine = stamp .. claim\n      width = width + 2\n      entry[width - 1], entry[width] = user, mine\n      if record then mine = record .. mine end\n      fields[width - 1], fields[width] = user, mine\n      fresh[user] = mine\n      remaining, accepted = remaining - 1, accepted + 1\n      released, tokens = released - 1, tokens - 1000\n    end\n  end\n  letters[i] = letter\nend\n\nif width > 0 then\n  redis.call('XADD', log_key, '*', 'v', gate[3] .. ':' .. gate[2], unpack(entry))\n  redis.call('HSET', users_key, unpack(fields))\n  local left, taken = string.format('%.0f', remaining), string.format('%.0f', accepted)\n  if pace_per_s then\n    redis.call('HSET', gate_key, 'remaining', left, 'accepted', taken,\n      'pace_state', string.format('%.0f:%.0f', tokens, pace_at))\n  else\n    redis.call('HSET', gate_key, 'remaining', left, 'accepted', taken)\n  end\nend\n\n-- When a claim that got B should come back: why it was busy, in the order of the checks above.\nlocal retry = 1000\nif closed == 'B' then retry = 1000\nelseif remaining <= 0 then retry = 200\nelseif released <= 0 then\n  retry = now < drip_at and drip_at - now or drip_every - (now - drip_at) % drip_every\nelseif tokens < 1000 then\n  retry = math.ceil((1000 - tokens) / math.max(pace_per_s, 1))\nend\n\nreturn gate[2] .. ' ' .. string.format('%.0f', remaining) .. ' ' .. gate[9] .. ' ' .. string.format('%.0f', now)\n  .. ' ' .. gate[4] .. ' ' .. gate[5] .. ' ' .. string.format('%.0f', retry)\n  .. '\\n' .. table.concat(letters) .. '\\n' .. table.concat(replays)\n",
    sha1: '05614b1ee53bf6c7d1f78903cc62e90b4947f772',
    keyLockingSha1: 'e466bc3e99c04a0b75124902787d7a06bf4be84c',
  },
  compensate: {
    name: 'compensate',
    keyCount: 2,
    source: "local gate_key, users_key = KEYS[1], KEYS[2]\nlocal user, request = ARGV[1], ARGV[2]\n\nlocal gate = redis.call('HMGET', gate_key, 'remaining', 'returned', 'settled', 'epoch')\nif not gate[1] then return 'not_ready' end\nlocal record = redis.call('HGET', users_key, user)\nif not record then return 'missing' end\n\nfor at = 1, #record, 44 do\n  if string.sub(record, at, at + 20) == request then\n    local old = string.sub(record, at + 43, at + 43)\n    if old == 'R' then return 'already' end\n    if old == 'D' then return 'delivered' end\n    if old == 'B' then return 'entry' end\n    local settled = tonumber(gate[3])\n    if old ~= 'X' then settled = settled + 1 end\n    redis.call('HSET', users_key, user, string.sub(record, 1, at + 42) .. 'R' .. string.sub(record, at + 44))\n    redis.call('HSET', gate_key, 'remaining', string.format('%.0f', tonumber(gate[1]) + 1),\n      'returned', string.format('%.0f', tonumber(gate[2]) + 1), 'settled', string.format('%.0f', settled),\n      'epoch', string.format('%.0f', tonumber(gate[4]) + 1))\n    return 'returned'\n  end\nend\nreturn 'missing'\n",
    sha1: '4340050e0f0e37bb8729737945723d525139d0ef',
    keyLockingSha1: '373313b0eaf5744dbb3de10765f250336f019060',
  },
  configure: {
    name: 'configure',
    keyCount: 1,
    source: "local gate_key = KEYS[1]\nlocal version = tonumber(ARGV[1])\n\nlocal current = tonumber(redis.call('HGET', gate_key, 'config_version'))\nif not current then return 'not_ready' end\nif version < current then return 'stale' end\nif version == current then return 'same' end\n\nredis.call('HSET', gate_key, 'config_version', ARGV[1], 'state', ARGV[2], 'rule_version', ARGV[3],\n  'starts_at', ARGV[4], 'ends_at', ARGV[5], 'per_user_limit', ARGV[6], 'drip', ARGV[7], 'pace', ARGV[8])\nreturn 'applied'\n",
    sha1: '5f494da8ea6b62d04674a05b1a18dd3170c1e124',
    keyLockingSha1: 'ce3c0e2a922389cf27a0e76889a6795779b98595',
  },
  deposit: {
    name: 'deposit',
    keyCount: 2,
    source: "local gate_key, moves_key = KEYS[1], KEYS[2]\nlocal id, amount = ARGV[1], tonumber(ARGV[2])\n\nlocal gate = redis.call('HMGET', gate_key, 'remaining', 'allocated', 'epoch')\nif not gate[1] then return 'not_ready' end\nlocal done = redis.call('HGET', moves_key, id)\nif done then return 'already ' .. string.gsub(done, '[+-]', '') end\n\nredis.call('HSET', moves_key, id, string.format('+%.0f', amount))\nredis.call('HSET', gate_key, 'remaining', string.format('%.0f', tonumber(gate[1]) + amount),\n  'allocated', string.format('%.0f', tonumber(gate[2]) + amount),\n  'epoch', string.format('%.0f', tonumber(gate[3]) + 1))\nreturn string.format('moved %.0f', amount)\n",
    sha1: '3ad78240fed8f9f8248add8065b1c819510b863f',
    keyLockingSha1: 'f1d0d78d6ea7ec82e294af769f59ddf6fd4cb5d5',
  },
  enter: {
    name: 'enter',
    keyCount: 3,
    source: "local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]\nlocal n = (#ARGV - 1) / 2\n\nlocal gate = redis.call('HMGET', gate_key, 'state', 'epoch', 'rule_version', 'starts_at', 'ends_at',\n  'remaining', 'lease_until', 'lease_from')\nlocal state = gate[1]\nif not state then\n  return '0 0 0 0 0 0 1000\\n' .. string.rep('N', n) .. '\\n'\nend\n\nlocal now = tonumber(ARGV[1])\nif not now then\n  local time = redis.call('TIME')\n  now = time[1] * 1000 + math.floor(time[2] / 1000)\nend\nlocal closed = false\nif state == 'VOIDED' then closed = 'V'\nelseif state == 'ENDED' then closed = 'E'\nelseif state == 'PAUSED' then closed = 'P'\nelseif now < tonumber(gate[4]) then closed = 'S'\nelseif now >= tonumber(gate[5]) then closed = 'E'\nelseif now >= tonumber(gate[7]) then closed = 'B'\nelseif gate[8] and now < tonumber(gate[8]) then\n  -- As in claim-3: a lease that the clock stepped back from is over.\n  closed, gate[7] = 'B', '0'\n  redis.call('HSET', gate_key, 'lease_until', '0')\nend\n\nlocal sub = string.sub\nlocal stamp, rest = '', now\nlocal digits = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'\nfor _ = 1, 8 do\n  local digit = rest % 64\n  stamp = sub(digits, digit + 1, digit + 1) .. stamp\n  rest = (rest - digit) / 64\nend\n\nlocal records = redis.call('HMGET', users_key, unpack(ARGV, 2, n + 1))\nlocal letters, replays, fresh, entry, width = {}, {}, {}, {}, 0\nfor i = 1, n do\n  local user, claim = ARGV[i + 1], ARGV[n + 1 + i]\n  local record = fresh[user] or records[i]\n  local letter = closed or 'A'\n  if record then\n    -- One entry a user: there is one record.\n    if sub(record, 22, 30) == sub(claim, 14, 22) then\n      if sub(record, 31, 34) == sub(claim, 23, 26) then\n        letter = 'Y'\n        replays[#replays + 1] = sub(record, 1, 21)\n      else\n        letter = 'M'\n      end\n    elseif sub(record, 35, 43) == sub(claim, 27, 35) then letter = 'T'\n    elseif not closed then letter = 'L'\n    end\n  end\n  if letter == 'A' then\n    local mine = stamp .. claim\n    fresh[user] = mine\n    width = width + 2\n    entry[width - 1], entry[width] = user, mine\n  end\n  letters[i] = letter\nend\n\nif width > 0 then\n  redis.call('XADD', log_key, '*', 'b', gate[3] .. ':' .. gate[2], unpack(entry))\n  redis.call('HSET', users_key, unpack(entry))\n  redis.call('HINCRBY', gate_key, 'entered', string.format('%.0f', width / 2))\nend\nreturn gate[2] .. ' ' .. gate[6] .. ' ' .. gate[7] .. ' ' .. string.format('%.0f', now) .. ' ' .. gate[4] .. ' '\n  .. gate[5] .. ' 1000\\n' .. table.concat(letters) .. '\\n' .. table.concat(replays)\n",
    sha1: '04e6f20c3e1c1499ebdc60a418ad016008310bc9',
    keyLockingSha1: 'fe289726a0de46b826802fe92f88dca6034f2b08',
  },
  holders: {
    name: 'holders',
    keyCount: 2,
    source: "local gate = redis.call('HMGET', KEYS[1], 'epoch', 'remaining')\nif not gate[1] then return 'not_ready' end\nlocal page = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])\nlocal fields = page[2]\nlocal lines = { gate[1] .. ' ' .. gate[2] .. ' ' .. page[1] }\nlocal escapes = { ['%'] = '%25', ['\\n'] = '%0A' }\nfor i = 1, #fields, 2 do\n  lines[#lines + 1] = (string.gsub(fields[i], '[%%\\n]', escapes))\nend\nreturn table.concat(lines, '\\n')\n",
    sha1: '4487464deff18262a0014aefacd48735d247db90',
    keyLockingSha1: '71a0e3a15c33db244d460e61a3b6ea5eab07f850',
  },
  honour: {
    name: 'honour',
    keyCount: 3,
    source: "local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]\nlocal user, claim = ARGV[1], ARGV[2]\n\nlocal gate = redis.call('HMGET', gate_key, 'rule_version', 'epoch', 'per_user_limit', 'remaining', 'accepted')\nif not gate[1] then return 'not_ready' end\nlocal record = redis.call('HGET', users_key, user) or ''\nlocal held = 0\nfor at = 1, #record, 44 do\n  if string.sub(record, at, at + 20) == string.sub(claim, 1, 21) then return 'already' end\n  if string.sub(record, at + 43, at + 43) ~= 'R' then held = held + 1 end\nend\nif held >= tonumber(gate[3]) then return 'limit' end\nif tonumber(gate[4]) <= 0 then return 'sold_out' end\n\nredis.call('XADD', log_key, '*', 'v', gate[1] .. ':' .. gate[2], user, claim)\nredis.call('HSET', users_key, user, record .. claim)\nredis.call('HSET', gate_key, 'remaining', string.format('%.0f', tonumber(gate[4]) - 1),\n  'accepted', string.format('%.0f', tonumber(gate[5]) + 1))\nreturn 'accepted'\n",
    sha1: 'd61e508b479a75137395c2978f7b3c643283136a',
    keyLockingSha1: '89a012ba69597ee8c5f82d307f2ac0aa7d569ccb',
  },
  inspect: {
    name: 'inspect',
    keyCount: 2,
    source: "if redis.call('EXISTS', KEYS[1]) == 0 then return 'not_ready' end\nreturn redis.call('HGET', KEYS[2], ARGV[1]) or ''\n",
    sha1: '296e53b73bb49dd01809bdd35df028b04f24759c',
    keyLockingSha1: 'eb0a766f322b279ef9055ed22e86119008a048d0',
  },
  prime: {
    name: 'prime',
    keyCount: 3,
    source: "local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]\n\nif redis.call('EXISTS', gate_key) == 1 then return 'already' end\nif redis.call('EXISTS', users_key) == 1 or redis.call('XLEN', log_key) > 0 then return 'conflict' end\n\nlocal made = redis.pcall('XGROUP', 'CREATE', log_key, ARGV[1], '0', 'MKSTREAM')\nif made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return redis.error_reply(made.err) end\n\n-- A value of more than 64 bytes makes the gate a real hash table: its fields are then found by hash, not by a walk\n-- through a listpack, which makes a call for one claim 7 % cheaper.\nlocal about = 'The gate of one slice of a campaign: written by Tidegate alone, rebuilt from its ledger.'\nredis.call('HSET', gate_key, 'about', about, 'state', ARGV[2], 'epoch', ARGV[3], 'config_version', ARGV[4],\n  'rule_version', ARGV[5], 'starts_at', ARGV[6], 'ends_at', ARGV[7], 'per_user_limit', ARGV[8],\n  'allocated', ARGV[9], 'remaining', ARGV[9], 'accepted', '0', 'settled', '0', 'returned', '0',\n  'lease_until', '0', 'final', ARGV[10], 'drip', ARGV[11], 'pace', ARGV[12])\nreturn 'primed'\n",
    sha1: '7cba842b2f04be111d249ff694df53c665d24c40',
    keyLockingSha1: '02bbf04b047b8e9de7e22f6ea5fd0bbf25a882f4',
  },
  rebuild_begin: {
    name: 'rebuild_begin',
    keyCount: 3,
    source: "local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]\n\nlocal made = redis.pcall('XGROUP', 'CREATE', log_key, ARGV[1], '0', 'MKSTREAM')\nif made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return redis.error_reply(made.err) end\nredis.call('DEL', gate_key, users_key)\nreturn string.format('%.0f', redis.call('XLEN', log_key))\n",
    sha1: 'b534ac907bc09b324988864fc5d38d1597eca0da',
    keyLockingSha1: '304e98bb4475145bfa718548d65edc529d9b3a2a',
  },
  rebuild_finish: {
    name: 'rebuild_finish',
    keyCount: 4,
    source: "local gate_key, users_key, log_key, moves_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n\nif redis.call('EXISTS', gate_key) == 1 then return 'open' end\nif redis.call('XLEN', log_key) > 0 then return 'unsettled' end\nif ARGV[16] ~= '' and redis.call('HLEN', users_key) ~= tonumber(ARGV[16]) then return 'incomplete' end\n\n-- A new log begins at 0: its next entries must come after all that the ledger has, or no watermark would tell them\n-- apart. The one that is added only to be deleted leaves its id behind; where the log is further on, it is refused.\nif ARGV[17] ~= '' then\n  local added = redis.pcall('XADD', log_key, ARGV[17], 'w', '')\n  if type(added) == 'string' then redis.call('XDEL', log_key, ARGV[17]) end\nend\n\nredis.call('DEL', moves_key)\nfor from = 18, #ARGV, 2000 do\n  redis.call('HSET', moves_key, unpack(ARGV, from, math.min(from + 1999, #ARGV)))\nend\n-- See prime-3: a long value keeps the gate a hash table.\nlocal about = 'The gate of one slice of a campaign: written by Tidegate alone, rebuilt from its ledger.'\nredis.call('HSET', gate_key, 'about', about, 'state', ARGV[1], 'epoch', ARGV[2], 'config_version', ARGV[3],\n  'rule_version', ARGV[4], 'starts_at', ARGV[5], 'ends_at', ARGV[6], 'per_user_limit', ARGV[7],\n  'allocated', ARGV[8], 'remaining', ARGV[9], 'accepted', ARGV[10], 'settled', ARGV[11],\n  'returned', ARGV[12], 'lease_until', '0', 'final', ARGV[13], 'drip', ARGV[14], 'pace', ARGV[15])\nreturn 'rebuilt'\n",
    sha1: '1b27e85260cb7d5b5aa59921e9ec44aba5969f19',
    keyLockingSha1: '44c7291b2e539c67d31626eb05c3327885402cc9',
  },
  rebuild_load: {
    name: 'rebuild_load',
    keyCount: 2,
    source: "if redis.call('EXISTS', KEYS[1]) == 1 then return 'open' end\nfor from = 1, #ARGV, 2000 do\n  redis.call('HSET', KEYS[2], unpack(ARGV, from, math.min(from + 1999, #ARGV)))\nend\nreturn 'loaded'\n",
    sha1: '14b4d71d62ba33c40c99515c92bd264918e2638e',
    keyLockingSha1: '5aa4758220f4b4b0b5ddfcce1f91d5c320824963',
  },
  renew_lease: {
    name: 'renew_lease',
    keyCount: 1,
    source: "local gate_key = KEYS[1]\nlocal lease_ms = tonumber(ARGV[2])\n\nlocal gate = redis.call('HMGET', gate_key, 'epoch', 'final', 'remaining', 'accepted', 'settled',\n  'config_version', 'state')\nif not gate[1] then return 'not_ready' end\n\nlocal now = tonumber(ARGV[1])\nif not now then\n  local time = redis.call('TIME')\n  now = time[1] * 1000 + math.floor(time[2] / 1000)\nend\nlocal epoch = gate[1]\nif gate[2] == '1' and ARGV[3] == '0' then epoch = string.format('%.0f', tonumber(epoch) + 1) end\nlocal lease_until = string.format('%.0f', now + lease_ms)\n\nredis.call('HSET', gate_key, 'lease_from', string.format('%.0f', now), 'lease_until', lease_until, 'final', ARGV[3], 'epoch', epoch)\nreturn string.format('%.0f', now) .. ' ' .. epoch .. ' ' .. lease_until .. ' ' .. gate[3] .. ' ' .. gate[4]\n  .. ' ' .. gate[5] .. ' ' .. gate[6] .. ' ' .. gate[7]\n",
    sha1: 'e2ba8f96633ab9332105ee3e2f0bc35c1d402284',
    keyLockingSha1: '157e341016762914a5c2927d864541c9f0d9369d',
  },
  settle: {
    name: 'settle',
    keyCount: 3,
    source: "local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]\nlocal group, entries = ARGV[1], tonumber(ARGV[2])\nlocal first = entries + 3\nlocal count = (#ARGV - first + 1) / 3\n\nlocal settled, missing = 0, 0\nlocal fields, width = {}, 0\nif count > 0 then\n  local users, records = {}, {}\n  for i = 1, count do users[i] = ARGV[first + (i - 1) * 3] end\n  -- Chunks keep unpack within Lua's stack.\n  for from = 1, count, 1000 do\n    local part = redis.call('HMGET', users_key, unpack(users, from, math.min(from + 999, count)))\n    for i = 1, #part do records[from + i - 1] = part[i] end\n  end\n  local fresh = {}\n  for i = 1, count do\n    local user, request, letter = users[i], ARGV[first + i * 3 - 2], ARGV[first + i * 3 - 1]\n    local record = fresh[user] or records[i]\n    local found = false\n    if record then\n      for at = 1, #record, 44 do\n        if string.sub(record, at, at + 20) == request then\n          found = true\n          local old = string.sub(record, at + 43, at + 43)\n          if (old == 'A' or old == 'V' or old == 'B') and old ~= letter then\n            record = string.sub(record, 1, at + 42) .. letter .. string.sub(record, at + 44)\n            fresh[user] = record\n            width = width + 2\n            fields[width - 1], fields[width] = user, record\n            -- A ballot entry holds no stock; one held for review still does.\n            if letter ~= 'V' and old ~= 'B' then settled = settled + 1 end\n          end\n          break\n        end\n      end\n    end\n    if not found then missing = missing + 1 end\n  end\nend\n\nfor from = 1, width, 2000 do\n  redis.call('HSET', users_key, unpack(fields, from, math.min(from + 1999, width)))\nend\nif settled > 0 and redis.call('EXISTS', gate_key) == 1 then\n  redis.call('HINCRBY', gate_key, 'settled', string.format('%.0f', settled))\nend\nif entries > 0 then\n  redis.call('XACK', log_key, group, unpack(ARGV, 3, entries + 2))\n  redis.call('XDEL', log_key, unpack(ARGV, 3, entries + 2))\nend\nreturn string.format('%.0f %.0f', settled, missing)\n",
    sha1: '2eb567878756a6d06307843b7b00831d796c0fb9',
    keyLockingSha1: 'd5aac5bc31a68d274f15d47c9dc9f0e3f1938427',
  },
  snapshot: {
    name: 'snapshot',
    keyCount: 3,
    source: "local gate_key, users_key, log_key = KEYS[1], KEYS[2], KEYS[3]\n\nlocal gate = redis.call('HMGET', gate_key, 'state', 'epoch', 'config_version', 'rule_version', 'allocated',\n  'remaining', 'accepted', 'settled', 'returned', 'lease_until', 'final')\nif not gate[1] then return 'not_ready' end\n\nlocal now = ARGV[1]\nif now == '' then\n  local time = redis.call('TIME')\n  now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))\nend\nlocal entries, watermark = 0, '0-0'\nif redis.call('EXISTS', log_key) == 1 then\n  entries = redis.call('XLEN', log_key)\n  local info = redis.call('XINFO', 'STREAM', log_key)\n  for i = 1, #info, 2 do\n    if info[i] == 'last-generated-id' then watermark = info[i + 1] end\n  end\nend\nreturn now .. ' ' .. table.concat(gate, ' ') .. ' ' .. redis.call('HLEN', users_key) .. ' ' .. entries\n  .. ' ' .. watermark\n",
    sha1: 'e506e3f98fcddf02b18e658fbef5944017053e14',
    keyLockingSha1: '321786256ee9aaf1125599643ac1f2ed55911d05',
  },
  withdraw: {
    name: 'withdraw',
    keyCount: 2,
    source: "local gate_key, moves_key = KEYS[1], KEYS[2]\nlocal id, most = ARGV[1], tonumber(ARGV[2])\n\nlocal gate = redis.call('HMGET', gate_key, 'remaining', 'allocated', 'epoch')\nif not gate[1] then return 'not_ready' end\nlocal done = redis.call('HGET', moves_key, id)\nif done then return 'already ' .. string.gsub(done, '[+-]', '') end\n\nlocal remaining = tonumber(gate[1])\nlocal amount = math.min(most, remaining)\nredis.call('HSET', moves_key, id, string.format('-%.0f', amount))\nredis.call('HSET', gate_key, 'remaining', string.format('%.0f', remaining - amount),\n  'allocated', string.format('%.0f', tonumber(gate[2]) - amount),\n  'epoch', string.format('%.0f', tonumber(gate[3]) + 1))\nreturn string.format('moved %.0f', amount)\n",
    sha1: '67bc76fb5b890ba01747615a615c89ee2f55c788',
    keyLockingSha1: 'ce17aa377e75447260e72177f9574d2a92b52b08',
  },
} as const satisfies Record<string, Script>
