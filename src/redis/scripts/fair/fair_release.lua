-- Release the fair lock, or leave the line. Returns 1 when owner held it, 0 when not. Harmless when repeated.
-- ARGV: owner, channel, listening, rest: ms the lock stays taken, then it is free, doubt: "1" where a request for the
-- owner may still be under way, served: the numbers of waiters of the same process that had the lock under this grant,
-- as "7,9,12,"
local channel = ARGV[2]
--@include fair_base.lua
local owner, rest = ARGV[1], tonumber(ARGV[4]) or 0

-- They leave the line. One of them may have got the lock from the server, when it ended there before it was released.
local function leave_served(numbers)
  local ids, removed = {}, 0
  for number in numbers:gmatch('%d+') do
    ids[#ids + 1] = owner:sub(1, 37) .. number
  end
  local first = ask('LRANGE', queue, 0, #ids - 1)
  if first and table.concat(first, ' ') == table.concat(ids, ' ') then -- as they were named
    call('LTRIM', queue, #ids, -1)
    removed = ask('ZREM', timeouts, unpack(ids)) or 0
  end
  for i = removed == 0 and 1 or #ids + 1, #ids do
    if ask('ZREM', timeouts, ids[i]) == 1 then
      ask('LREM', queue, 1, ids[i])
      removed = 1
    end
  end
  ask('HDEL', about, unpack(ids))
  return (ask('HDEL', lock, unpack(ids)) or 0) + removed > 0
end

-- A read or write hold of Redisson's that has entered the hash stays, and none of ours gets in.
local held = ask('HDEL', lock, owner) == 1
local left = ARGV[6] and leave_served(ARGV[6])
if ARGV[5] == '1' and ask('HLEN', tombs) then
  local about = tombs
  --@include shared/bury.lua
  bury(owner, owner)
end
local present = held and call('EXISTS', lock, queue, timeouts)
if held and present > 0 and call('EXISTS', lock) == 1 then
  return 1
end
if held and rest > 0 then
  call('HSET', lock, owner .. ':rest', '1')
  call('PEXPIRE', lock, ARGV[4])
  local first = ask('LINDEX', queue, 0)
  if first then -- it sleeps until the lease would have ended
    call('PUBLISH', channel .. ':' .. first, '0')
  end
  return 1
end
-- The usual cases come first, before the functions of the line are made. Nobody waits.
if held and present == 0 and (ask('HLEN', about) or 2) <= 1 then
  call('HDEL', about, '!', '?', '~')
  return 1
end

-- Do a step. A key of another type is left alone: everything else has been done. Returns what the step returns, or false.
local function try(step, ...)
  local done, result = pcall(step, ...)
  if not done and not result:find('WRONGTYPE', 1, true) then
    error(result)
  end
  return done and result
end

--@include fair_give.lua
-- The first in line gets the lock. Returns whether it could be done: the first is one of ours, and it lives; the one
-- behind it is not foreign.
local function pass()
  local two = call('LRANGE', queue, '0', '1')
  local first, after = two[1], two[2]
  if not first or not ours(first) or after and not ours(after) then
    return false
  end
  local told = parse(call('HGET', about, first))
  if not told or not told.lives or not reachable(first, told) or not gate or call('EXISTS', gate) == 1 then
    return false
  end
  tell(first, told, award(first, told, after))
  return true
end
if held and try(pass) then
  return 1
end

--@include fair_line.lua

if held then
  try(hand_on)
  return 1
end
try(leave, owner)
if left and call('EXISTS', lock) == 0 then
  try(hand_on)
end
return 0
