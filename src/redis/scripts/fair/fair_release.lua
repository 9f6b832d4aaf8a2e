-- Release the fair lock, or leave the line. Returns 1 when owner held it, 0 when not. Harmless when repeated.
-- ARGV: owner, channel, listening, rest: ms the lock stays taken, then it is free, doubt: "1" where a request for the
-- owner may still be under way
local channel = ARGV[2]
--@include fair_base.lua
local owner, rest = ARGV[1], tonumber(ARGV[4]) or 0

-- A read or write hold of Redisson's that has entered the hash stays, and none of ours gets in.
local held = ask('HDEL', lock, owner) == 1
if ARGV[5] == '1' and ask('HLEN', tombs) then
  local about = tombs
  --@include shared/bury.lua
  bury(owner)
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
return 0
