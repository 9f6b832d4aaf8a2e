-- Who holds the lock, for how long still, the last token reserved, server time, and how many processes stand in line.
-- {holder or "", PTTL, token, microseconds, waiters}; -1: another kind of key. Changes nothing. Of several holders one is
-- named; one that rests ends in ":rest". Semaphores and latches are strings and have no holder. The line, KEYS[3], is a
-- zset, a list or nothing of the kind. ARGV: kind
--@include fits.lua
local function holder_of(key)
  local fields = redis.call('TYPE', key).ok ~= 'string' and redis.call('HKEYS', key) or {}
  return fields[fields[1] == 'mode' and 2 or 1] or ''
end

local function length_of(line)
  local type = line and redis.call('TYPE', line).ok
  if type == 'zset' then
    return redis.call('ZCOUNT', line, 0, '+inf')
  end
  return type == 'list' and redis.call('LLEN', line) or 0
end

if not fits(KEYS[1], ARGV[1]) then
  return -1
end
local time, token = redis.call('TIME'), redis.call('GET', KEYS[2])
return {
  holder_of(KEYS[1]), redis.call('PTTL', KEYS[1]), tonumber(token or '0') or 0, time[1] * 1000000 + time[2],
  length_of(KEYS[3]),
}
