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
--@include sem_total.lua
--@include sem_holders.lua
local turns = KEYS[6]
--@include shared/turns.lua
--@include sem_turns.lua
local what, number, id, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local MOST = 16

-- Holders that were heard last before this are dead.
local function since()
  return '(' .. text(millis() - number)
end

-- Remove a holder. Returns the permits it gives back. For a while the id gets nothing.
local function bury(one)
  local permits, owner = one:match('^(%d+) (.*)$')
  local gone = call('ZREM', KEYS[5], one)
  call('ZREM', KEYS[4], owner, one)
  remember(owner, 0, 0, WHILE)
  return gone * permits
end

-- The server has lost holders: those of taken that live say so with their next renewal. Until then they are presumed to
-- have lived now, with their lease or a longer one.
local function presume()
  if call('ZCOUNT', KEYS[4], '-inf', '(9e15') <= call('ZCOUNT', KEYS[5], '-inf', '+inf') then
    return
  end
  local about, all = {}, call('ZRANGE', KEYS[4], 0, -1, 'WITHSCORES')
  for i = #all - 1, 1, -2 do -- the highest scores come first: they tell about the others
    local one, score = all[i], tonumber(all[i + 1])
    if score >= ABOUT then
      about[one:match(' (.*)$')] = { one, score - ABOUT }
    else
      local told = about[one] or { holder(one, 1), PRESUMED }
      call('ZADD', KEYS[5], 'NX', text(millis() + told[2]), told[1])
    end
  end
  call('PEXPIRE', KEYS[5], YEAR)
end

local function reclaim(there)
  presume()
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

-- The value that each operation answers, whether anything changed, and the total then, as far as it is known.
local function change(left, there)
  local all = (what == 'add' or what == 'drain') and total()
  if what == 'add' then
    all = there and all and all + number or not there and number + held(KEYS[5])
    left = left + number
    call('SET', lock, text(left))
    announce_all(channel, left, left, left)
    return left, true, all
  end
  if what == 'reclaim' then
    return reclaim(there)
  end
  if what == 'drain' then
    if there then
      call('SET', lock, '0')
    end
    return left, there, there and all and all - left
  end
  if there then
    return left, false
  end
  left = number - held(KEYS[5]) -- permits may be out: of a count that was lost
  call('SET', lock, text(left))
  announce_all(channel, left, left, left)
  return left, true, tonumber(number)
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
if not there then
  left, there = mend(held(KEYS[5]))
end
local value, changed, all = change(left, there)
if all then
  keep_total(all)
end
if changed then
  remember(id, 1, value, WHILE)
end
return answer({ (changed or what ~= 'set') and 1 or 0, value })
