-- What the scripts of the read-write lock share. The layout is Redisson's, to the byte:
--   lock   hash: mode -> "read" or "write"; each reader's id -> "1" (Redisson counts re-entries there); the writer's
--          id, which ends in ":write" -> "1"
--   hold   string T(N):<id>:rwlock_timeout:<i>, one of each read hold; it lives as long as the lease of that hold.
--          Redisson writes "1" and nobody reads it: ours is the token.
--   fence  string, the highest fencing token reserved so far
-- While the mode is read, the lock lives as long as the longest hold, and among more than FEW fields up to as long as the longest
-- hold there was; while it is write, by the writer's lease, and
-- longer if a read under it has a longer one.
-- A released hold that rests is ours alone: its id gets ":rest" behind and it has a hold key, also when it was the
-- writer's. In Redisson's eyes it is a hold like any other, of an id that nobody sends.
local call, lock = redis.call, KEYS[1]

local function now()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

local function text(number)
  return string.format('%.0f', number)
end

local function hold_key(id, i)
  return (lock:find('{', 1, true) and lock or '{' .. lock .. '}') .. ':' .. id .. ':rwlock_timeout:' .. i
end

-- "free", "read", "write"; "other" for another kind of key.
local function look()
  local type = call('TYPE', lock).ok
  local mode = type == 'hash' and call('HGET', lock, 'mode')
  if mode == 'read' or mode == 'write' then
    return mode
  end
  return type == 'none' and 'free' or 'other'
end

-- Redisson writes a reader's field and its hold key in one script, gives the key the hold's lease, renews both in one
-- script and deletes the key only with the hold. So a reader without a living key is dead: its lease has run out, and Redisson
-- itself drops the lock over its head when another reader leaves. Dead readers are removed, a few with each call. A call looks at
-- all fields while they are FEW, and else at SOME, chosen at random. It goes on only while it finds the dead alone: each of
-- those is looked at once, and MOST of them in one call.
local FEW, SOME, MOST = 16, 8, 1024

-- Ms until the last hold of these readers ends, 0 when all have ended. fields: id, number of holds, id ... The dead are removed,
-- but not where spare is set and nobody lives: the lock itself goes then, and a full server refuses nothing behind a write.
-- The mode and what is no number have no holds; the life of a writer is the lock's.
local function sweep(fields, spare)
  local last, dead = 0, {}
  for i = 1, #fields, 2 do
    local id, holds, left = fields[i], tonumber(fields[i + 1]), 0
    for number = 1, holds or 0 do
      left = math.max(left, call('PTTL', hold_key(id, number)))
    end
    if holds and left == 0 and not id:find(':write', 1, true) then
      dead[#dead + 1] = id
    end
    last = math.max(last, left)
  end
  if dead[1] and (last > 0 or not spare) then
    call('HDEL', lock, unpack(dead))
  end
  return last
end

-- SOME fields, each as likely as any other. Redis before 6.2 scans from a bucket by chance; it gives a small hash whole, of which
-- they are cut out.
local function some()
  local found = redis.pcall('HRANDFIELD', lock, SOME, 'WITHVALUES')
  if not found.err then
    return found
  end
  local at = now()
  local all, cut = call('HSCAN', lock, text(at % 2 ^ 32), 'COUNT', SOME)[2], {}
  local count = #all / 2
  for i = at, at + math.min(SOME, count) - 1 do
    local field = 2 * (i % count)
    cut[#cut + 1], cut[#cut + 2] = all[field + 1], all[field + 2]
  end
  return cut
end

-- Ms until the last hold ends, 0 when none was found; and true when not all fields were looked at: others may live, or live longer.
local function last_hold()
  for _ = 1, MOST / SOME do
    if call('HLEN', lock) <= FEW then
      return sweep(call('HGETALL', lock), true), false
    end
    local last = sweep(some())
    if last > 0 then
      return last, true
    end
  end
  return 0, true
end

-- It always writes: replicas confirm nothing else.
local function extend(key, lease)
  call('PEXPIRE', key, math.max(call('PTTL', key), lease))
end

-- The lock lives as long as its last hold, see last_hold. Where not all are known it is never made shorter.
local function live(last, more)
  if more then
    extend(lock, last)
  else
    call('PEXPIRE', lock, last)
  end
end

-- The writer's id that rests, in mode write.
local function resting()
  local fields = call('HKEYS', lock)
  for i = 1, #fields do
    if fields[i]:sub(-11) == ':write:rest' then
      return fields[i]
    end
  end
end

-- Everybody may look again. "1" wakes the threads of a JVM that sleep, "0" the one that is about to. The latter is written
-- so that ours, who look at any message, know it for a repetition.
local function tell_all(channel)
  call('PUBLISH', channel, '1')
  call('PUBLISH', channel, '00')
end

-- A request for the id may still be under way: for a while this id gets nothing. Its own hold key says so. Redisson looks at hold
-- keys of ids in the hash only. DEL comes first: a full server refuses SET as the first write of a script.
local BURIED, MS = '-', 120000
local function bury(hold)
  call('DEL', hold)
  call('SET', hold, BURIED, 'PX', MS)
end

-- The mode as it should be: when a writer's rest is over, reads that were taken under it go on, and others may come.
local function settle(mode, channel)
  local id = mode == 'write' and resting()
  if not id or call('PTTL', hold_key(id, 1)) > 0 then
    return mode
  end
  call('HDEL', lock, id)
  call('HSET', lock, 'mode', 'read')
  tell_all(channel)
  return 'read'
end

-- What id held stays taken for rest ms. The id itself is gone: a release, a renewal or an acquire of it that comes late
-- or twice does not find it again. Who sleeps until the lease would have ended is told to look. A write must have come before:
-- this may run on a full server.
local function let_rest(id, channel, rest)
  call('HSET', lock, id .. ':rest', '1')
  call('SET', hold_key(id .. ':rest', 1), '1', 'PX', rest)
  extend(lock, rest)
  tell_all(channel)
end
