-- Release the fair lock, or leave the line: 1 when owner held it, 0 when not. Harmless when repeated.
-- rest: keep the lock for so many ms more, then it is free. ARGV: owner, channel, listening, rest
local channel = ARGV[2]
--@include fair_base.lua
local owner, rest = ARGV[1], tonumber(ARGV[4]) or 0

-- The usual case first, before the functions of the line are made: nobody waits.
local held = ask('HEXISTS', lock, owner) == 1
if held and rest > 0 then
  call('PEXPIRE', lock, ARGV[4])
  return 1
end
if held and call('EXISTS', queue, timeouts) == 0 and (ask('HLEN', about) or 2) <= 1 then
  call('DEL', lock, about)
  return 1
end

--@include fair_line.lua
local usable = sound()
if held then
  call('DEL', lock)
  if usable then
    call('HDEL', about, '!')
    hand_on()
  end
  return 1
end
if usable then
  leave(owner)
end
return 0
