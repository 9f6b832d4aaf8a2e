-- Inspect a lock. Changes nothing. Returns {holder or "", PTTL, last reserved token, server time in microseconds,
-- number of processes in line}; -1: another kind of key. Of several holders one is named. The name of a resting hold
-- ends in ":rest". Semaphores and latches are strings and have no holder.
-- Of a read-write lock whose hash is gone, one of our holders is named, and what its lease has left: see rw/rw_holds.lua.
-- KEYS: those of the kind. The line is the third, of a read-write lock the sixth: a zset, a list, or anything else for no
-- waiters. ARGV: kind
--@include fits.lua
-- A read-write lock may have many holders. Of three fields one is a holder, the others may be mode and rest.
local function some(key)
  local found = SHARED[ARGV[1]] and redis.pcall('HRANDFIELD', key, 3)
  return found and not found.err and found or redis.call('HKEYS', key)
end

local function holder_of(key)
  local fields = redis.call('TYPE', key).ok ~= 'string' and some(key) or {}
  for i = 1, #fields do
    if fields[i] ~= 'mode' and fields[i] ~= 'rest' then
      return fields[i]
    end
  end
  return ''
end

local function length_of(line)
  local type = line and redis.call('TYPE', line).ok
  if type == 'zset' then
    return redis.call('ZCOUNT', line, 0, '(9e15') -- what is behind is of common.lua
  end
  return type == 'list' and redis.call('LLEN', line) or 0
end

if not fits(KEYS[1], ARGV[1]) then
  return -1
end
local time, token = redis.call('TIME'), redis.call('GET', KEYS[2])
local holder, left = holder_of(KEYS[1]), redis.call('PTTL', KEYS[1])

if left == -2 and SHARED[ARGV[1]] and KEYS[7] then
  --@include rw/rw_holds.lua
  --@include rw/rw_others.lua
  local ms, id = others(KEYS[7], '', time[1] * 1000 + math.floor(time[2] / 1000))
  if id then
    holder, left = id, ms
  end
end
return {
  holder, left, tonumber(token or '0') or 0, time[1] * 1000000 + time[2],
  length_of(SHARED[ARGV[1]] and KEYS[6] or KEYS[3]),
}
