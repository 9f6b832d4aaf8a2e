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
if held and call('EXISTS', lock) == 1 then
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
-- The usual case comes first, before the functions of the line are made: nobody waits.
if held and call('EXISTS', queue, timeouts) == 0 and (ask('HLEN', about) or 2) <= 1 then
  call('HDEL', about, '!', '?', '~')
  return 1
end

--@include fair_line.lua

-- Do a step. A key of another type is left alone: everything else has been done.
local function try(step, ...)
  local done, problem = pcall(step, ...)
  if not done and not problem:find('WRONGTYPE', 1, true) then
    error(problem)
  end
end

if held then
  try(hand_on)
  return 1
end
try(leave, owner)
if left and call('EXISTS', lock) == 0 then
  try(hand_on)
end
return 0
