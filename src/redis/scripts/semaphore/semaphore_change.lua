-- Read or change the permits of a semaphore. Returns {1, value}: done; {0, value}: not changed; {-1}: another kind of
-- key. The same id sent again gets the same answer. KEYS: lock, fence, gate, taken, holders, turns, once. ARGV: what, number,
-- id, channel
--   set      create it with number permits, if there is none. Value: the permits left
--   add      number more, or fewer. Value: the permits left. As with Redisson, the key loses its TTL
--   drain    take all. Value: how many they were. As with Redisson, the key loses its TTL
--   reclaim  give back the permits of holders that have not reported for their lease and number ms more, MOST holders in
--            one call. Value: how many permits came back. Behind it, 1: there are more. Permits of a semaphore that is
--            gone are forgotten
--   count    value: the permits left
--@include sem_counter.lua
--@include sem_once.lua
local turns = KEYS[6]
--@include shared/turns.lua
--@include sem_turns.lua
local what, number, id, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local MOST = 16

-- Holders that were heard last before this are dead.
local function since()
  return '(' .. text(millis() - number)
end

-- Remove a holder. Returns the permits it gives back: none when its id is not in taken any more. For a while the id
-- gets nothing.
local function bury(one)
  local permits, owner = one:match('^(%d+) (.*)$')
  call('ZREM', KEYS[5], one)
  local gone = call('ZREM', KEYS[4], owner)
  remember(owner, 0, 0, WHILE)
  return gone * permits
end

local function reclaim(there)
  local back, dead = 0, call('ZRANGEBYSCORE', KEYS[5], '-inf', since(), 'LIMIT', 0, MOST)
  for i = 1, #dead do
    back = back + bury(dead[i])
  end
  if not there or back == 0 then
    return 0, #dead > 0
  end
  local left = call('INCRBY', lock, text(back))
  announce_all(channel, left, left, left)
  return back, true
end

-- The value that each operation answers, and whether anything changed.
local function change(left, there)
  if what == 'add' then
    left = left + number
    call('SET', lock, text(left))
    announce_all(channel, left, left, left)
    return left, true
  end
  if what == 'reclaim' then
    return reclaim(there)
  end
  if what == 'drain' then
    if there then
      call('SET', lock, '0')
    end
    return left, there
  end
  if there then
    return left, false
  end
  call('SET', lock, number)
  announce_all(channel, number, tonumber(number), tonumber(number))
  return tonumber(number), true
end

local function answer(reply)
  if what == 'reclaim' then
    reply[3] = call('ZCOUNT', KEYS[5], '-inf', since()) > 0 and 1 or 0
  end
  return reply
end

local left, there = count()
if not left then
  return { -1 }
end
if what == 'count' then
  return { 1, left }
end
local told = recall(id)
if told then
  return answer(told)
end
local value, changed = change(left, there)
if changed then
  remember(id, 1, value, WHILE)
end
return answer({ (changed or what ~= 'set') and 1 or 0, value })
