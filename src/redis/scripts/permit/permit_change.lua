-- Read or change the permits of a permit semaphore. Returns {1, value}: done; {0, value}: not changed; {-1}: keys of
-- another kind. The same id sent again gets the same answer. KEYS: lock, fence, gate, leases, turns, once. ARGV: what, number,
-- id, channel
--   set         create it with number permits, if there is none. Value: the permits left
--   setpermits  make number the total, including permits that are out. Value: the permits left, below 0 when too many
--               are out
--   add         number more, or fewer. Value: the permits left. As with Redisson, the key loses its TTL
--   reclaim     give back permits that are missing for the longest lease and number ms more. Value: how many came back
--   count, acquired, permits    value: the permits left, those that are out, both
--@include semaphore/sem_counter.lua
--@include semaphore/sem_once.lua
--@include semaphore/sem_total.lua
--@include permit_ids.lua
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
  out = own(out)
  return { 1, what == 'acquired' and out - ended or there and left + out or 0 }
end

-- A holder whose lease the server has lost may believe in it until the lease ends.
local function give_missing(left, there, out)
  local gap = there and missing(left, out) or 0
  local longest = tonumber(call('HGET', once, '^') or 30000)
  if gap <= 0 or note(gap) + longest + number > millis() then
    return 0, false
  end
  call('HDEL', once, '?')
  left = call('INCRBY', lock, text(gap))
  announce_all(channel, left, left, left)
  return gap, true
end

-- The value that each operation answers, whether anything changed, and the total then, as far as it is known.
local function change(left, there, out)
  if what == 'reclaim' then
    return give_missing(left, there, out)
  end
  if what == 'add' then
    call('SET', lock, text(left + number))
    call('PERSIST', leases)
    announce_all(channel, number, number, left + number)
    return left + number, true, (there and (total() or left + own(out)) or own(out)) + number
  end
  if not there then -- permits may be out: of a count that was lost
    local left_now = number - own(out)
    call('SET', lock, text(left_now))
    announce_all(channel, number, number, left_now)
    return left_now, true, number
  end
  local more = number - left - own(out)
  if what == 'set' or more == 0 then
    return left, false
  end
  call('INCRBY', lock, text(more))
  announce_all(channel, number, number, left + more)
  return left + more, true, number
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
local value, changed, all = change(left, there, out)
if all then
  keep_total(all)
end
if changed then
  remember(id, 1, value, WHILE)
end
return { (changed or what ~= 'set') and 1 or 0, value }
