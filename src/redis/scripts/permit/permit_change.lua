-- Read or change the permits of a permit semaphore. Returns {1, value}: done; {0, value}: not changed; {-1}: keys of
-- another kind. The same id sent again gets the same answer. KEYS: lock, fence, gate, leases, turns, once. ARGV: what, number,
-- id, channel
--   set         create it with number permits, if there is none. Value: the permits left
--   setpermits  make number the total, including permits that are out. Value: the permits left, below 0 when too many
--               are out
--   add         number more, or fewer. Value: the permits left. As with Redisson, the key loses its TTL
--   count, acquired, permits    value: the permits left, those that are out, both
--@include semaphore/sem_counter.lua
--@include semaphore/sem_once.lua
local turns = KEYS[5]
--@include shared/turns.lua
--@include semaphore/sem_turns.lua
--@include permit_pool.lua
local what, number, id, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local function read()
  local left, there, out, ended = reclaim(channel)
  if not left then
    return { -1 }
  end
  if what == 'count' then
    return { 1, left + ended }
  end
  return { 1, what == 'acquired' and out - ended or there and left + out or 0 }
end

-- The permits left and whether anything changed.
local function change(left, there, out)
  if what == 'add' then
    call('SET', lock, text(left + number))
    call('PERSIST', leases)
    announce_all(channel, number, number, left + number)
    return left + number, true
  end
  if not there then
    call('SET', lock, text(number))
    announce_all(channel, number, number, number)
    return number, true
  end
  local more = number - left - out
  if what == 'set' or more == 0 then
    return left, false
  end
  call('INCRBY', lock, text(more))
  announce_all(channel, number, number, left + more)
  return left + more, true
end

if what == 'count' or what == 'acquired' or what == 'permits' then
  return read()
end
local left, there, out = pool()
if not left then
  return { -1 }
end
local told = recall(id)
if told then
  return told
end
local value, changed = change(left, there, out)
if changed then
  remember(id, 1, value, WHILE)
end
return { (changed or what ~= 'set') and 1 or 0, value }
