-- Release a read hold. Returns 1 when owner held it; 0 when it did not, or when its lease had run out. Harmless when
-- repeated.
-- KEYS: lock, fence, gate, hold, writer, turns, holds. ARGV: owner, channel, listening, rest: ms the hold stays, doubt: "1" where a request
-- for the owner may still be under way
--@include rw.lua
local own, channel, rest = ARGV[1], ARGV[2], tonumber(ARGV[4])

-- The lock lives as long as its last hold. Under a living writer its life is the writer's lease, and is left alone.
-- When there are more dead readers than one call may remove, waiters are told to probe, which removes more.
local function go_on(mode)
  if mode == 'write' and not resting() then
    return
  end
  local last, more = last_hold()
  if last > 0 then
    live(last, more)
  elseif more then
    tell_all(channel)
    in_line('tell_first')
  else
    call('DEL', lock)
    call('PUBLISH', channel, '0')
    in_line('call_next', 1)
  end
end

local held, mode = call('GET', KEYS[4]), look()
held = call('DEL', KEYS[4]) == 1 and held ~= BURIED and 1 or 0
if ARGV[5] == '1' then
  bury(KEYS[4])
end
local noted = call('ZREM', holds, own) == 1
if noted and mode == 'free' then -- the hash was gone, and writers waited all the same
  call('PUBLISH', channel, '0')
  in_line('call_next', 1)
end
if mode == 'free' or mode == 'other' or call('HDEL', lock, own) == 0 then
  return 0
end
if held == 1 and rest > 0 then
  let_rest(own, channel, rest)
end
go_on(settle(mode, channel))
return held
