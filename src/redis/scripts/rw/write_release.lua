-- Release the write hold, or leave the line. Returns 1 + the number of other processes that are subscribed; 0 when owner
-- did not hold it. Harmless when repeated. Reads of the same owner under it go on, and others may come. Unlike Redisson
-- this script tells waiters so: otherwise they would sleep until the lock's end.
-- KEYS: lock, fence, gate, hold, writer, turns, holds. ARGV: owner (ends in ":write"), channel, listening, rest: ms the hold
-- stays, doubt: "1" where a request for the owner may still be under way, stays: "1" where the process stays in line
--@include rw.lua
local own, rest = ARGV[1], tonumber(ARGV[4])

if ARGV[5] == '1' then
  bury(KEYS[4])
end
local mode = look()
local held = mode == 'write' and call('HDEL', lock, own) == 1
local noted = call('ZREM', holds, own) == 1
local left = ARGV[6] ~= '1' and in_line('leave', own:sub(1, 36))
if not held then
  if noted then -- the hash was gone, and others waited all the same
    tell_all(ARGV[2])
  end
  if (noted or left) and mode == 'free' then
    in_line('call_next', 1)
  elseif noted or left then
    in_line('tell_first')
  end
  return 0
end
if rest > 0 then
  let_rest(own, ARGV[2], rest)
  live(last_hold())
  return 1
end
local last, more = last_hold()
if last > 0 or more then
  call('HSET', lock, 'mode', 'read')
  if last > 0 then
    live(last, more)
  end
else
  call('DEL', lock)
  in_line('call_next', 1)
end
return 1 + math.max(tell_all(ARGV[2]) - ARGV[3], 0)
