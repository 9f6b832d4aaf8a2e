-- The second part of release.lua. gone: the owner is out of the hash already. heard: how many subscribers got the
-- message that the lock is free.
-- The usual cases come first, before the functions of common.lua are made: nothing rests, and nobody stands in line, or the
-- first in line gets the lock: it lives, and no foreign client waits. present: how many of the lock, the line and the gate
-- there are.
local present = gone and not heard and ARGV[5] ~= '1' and KEYS[5] and call('EXISTS', KEYS[1], KEYS[3], KEYS[5])
if present == 0 then
  heard = call('PUBLISH', ARGV[2], '0')
end
if heard and heard <= math.max(tonumber(ARGV[3]), 0) then
  return 1
end
--@include tokens.lua
--@include mutex/give.lua
if present == 1 then
  local first = call('ZRANGE', line, '0', '0')[1]
  local told = first and parse(call('HGET', about, first))
  if told and call('PUBSUB', 'NUMSUB', ARGV[2])[2] == 0 and tonumber(ARGV[3]) >= 0 and (told.polls or hears(first)) then
    leave(first)
    give(first, told)
    return 1
  end
end
--@include common.lua
--@include mutex/giveup.lua
if ARGV[5] == '1' then
  --@include bury.lua
  bury(ARGV[1])
end
if heard then
  if foreigners(ARGV[2], tonumber(ARGV[3])) > 0 then
    open_turn()
  end
  return 1
end
return give_up(ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), gone)
