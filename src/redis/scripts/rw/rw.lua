-- Shared by the scripts of the read-write lock. The layout is Redisson's, to the byte:
--   lock   hash: mode -> "read" or "write"; each reader's id -> "1" (Redisson counts re-entries there); the writer's
--          id, which ends in ":write" -> "1"
--   hold   string T(N):<id>:rwlock_timeout:<i>, one for each read hold; it lives as long as the lease of that hold.
--          Redisson writes "1", which nobody reads. Ours is the token.
--   fence  string, the highest fencing token reserved so far
--   writer string, ours: a writer waits for readers to end, since this time in ms. New readers stay out, see
--          write_acquire.lua
--   turns  zset, ours: processes with writers that wait, see turns.lua
--   holds  zset, ours: our own holders, see rw_holds.lua
-- In mode read, the lock lives as long as the longest hold; with more than FEW fields, at most as long as the longest
-- hold there ever was. In mode write it lives for the writer's lease, or longer if a read under it has a longer lease.
-- A resting hold is ours alone: its id has ":rest" at the end, and it has a hold key even if it was the writer's. To
-- Redisson it is a hold like any other, of an id that nobody sends. The field "rest" is the id of a resting writer; to
-- Redisson it is as the mode: no number.
local call, lock, turns, holds = redis.call, KEYS[1], KEYS[6], KEYS[7]

local function clock()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

local micros
-- Server time in microseconds, read once.
local function now()
  micros = micros or clock()
  return micros
end

local function millis()
  return math.floor(now() / 1000)
end

local function text(number)
  return string.format('%.0f', number)
end

--@include shared/turns.lua

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

-- Redisson writes a reader's field and its hold key in one script, and gives the key the hold's lease. It renews both
-- in one script, and deletes the key only with the hold. So a reader without a living key is dead: its lease has run
-- out, and Redisson itself drops the lock in spite of it when another reader leaves.
-- Dead readers are removed, a few with each call. A call inspects all fields while they are FEW, else SOME of them,
-- chosen at random. It goes on only while it finds none but dead readers. Each of those is inspected once, at most MOST
-- in one call.
local FEW, SOME, MOST = 16, 8, 32

-- Ms until the last hold of these readers ends, 0 when all have ended. fields: id, number of holds, id ...
-- Dead readers are removed, except when spare is set and nobody lives. Then the caller deletes the lock itself. A grant
-- that follows must reserve its token as the first write (see tokens.lua): after any write a full server refuses
-- nothing.
-- A value that is no number, such as the mode, has no holds. A writer lives as long as the lock.
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

-- SOME fields, all equally likely. Redis before 6.2 has no HRANDFIELD: it scans from a random bucket, and returns a
-- small hash whole. Then SOME of its fields are cut out.
local function some()
  local found = redis.pcall('HRANDFIELD', lock, SOME, 'WITHVALUES')
  if not found.err then
    return found
  end
  local at = clock()
  local all, cut = call('HSCAN', lock, text(at % 2 ^ 32), 'COUNT', SOME)[2], {}
  local count = #all / 2
  for i = at, at + math.min(SOME, count) - 1 do
    local field = 2 * (i % count)
    cut[#cut + 1], cut[#cut + 2] = all[field + 1], all[field + 2]
  end
  return cut
end

-- Ms until the last hold ends, 0 when none was found. And true when not all fields were inspected: others may live, or
-- live longer.
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

-- Never makes the life shorter. It always writes, because replicas confirm only writes.
local function extend(key, lease)
  call('PEXPIRE', key, math.max(call('PTTL', key), lease))
end

--@include rw_note.lua
--@include rw_others.lua

-- Make the lock live as long as its last hold, see last_hold. When not all holds are known, it is never made shorter.
local function live(last, more)
  if more then
    extend(lock, last)
  else
    call('PEXPIRE', lock, last)
  end
end

-- The id of a resting writer, in mode write.
local function resting()
  return call('HGET', lock, 'rest')
end

-- Readers and foreign clients may probe again. "1" wakes the sleeping threads of a JVM, "0" the thread that is about to
-- sleep. Ours probe at any message. The second one is written "00", so that ours recognise it as a repetition. Returns
-- how many subscribers were told.
local function tell_all(channel)
  call('PUBLISH', channel, '1')
  return call('PUBLISH', channel, '00')
end

-- A request for the id may still be under way, so for MS ms this id gets nothing. Its own hold key says so; Redisson
-- reads only the hold keys of ids in the hash. DEL comes first: a full server refuses SET as the first write of a
-- script.
local BURIED, MS = '-', 120000
local function bury(hold)
  call('DEL', hold)
  call('SET', hold, BURIED, 'PX', MS)
end

-- The mode as it should be. When a writer's rest is over, the mode becomes read: reads that were taken under it go on,
-- and others may come.
local function settle(mode, channel)
  local id = mode == 'write' and resting()
  if not id or call('PTTL', hold_key(id, 1)) > 0 then
    return mode
  end
  call('HDEL', lock, id, 'rest')
  call('HSET', lock, 'mode', 'read')
  tell_all(channel)
  in_line('tell_first')
  return 'read'
end

-- What id held stays taken for rest ms. The id itself is gone: a late or repeated release, renewal or acquire does not
-- find it again. Waiters that sleep until the lease would have ended are told to probe. The script must have written
-- before: this may run on a full server.
local function let_rest(id, channel, rest)
  call('HSET', lock, id .. ':rest', '1')
  if id:sub(-6) == ':write' then
    call('HSET', lock, 'rest', id .. ':rest')
  end
  call('SET', hold_key(id .. ':rest', 1), '1', 'PX', rest)
  note(holds, id .. ':rest', millis(), rest)
  extend(lock, rest)
  tell_all(channel)
  in_line('tell_first')
end
