-- The second part of release.lua. gone: the owner is out of the hash already. heard: how many subscribers got the
-- message that the lock is free.
-- The usual case comes first, before the functions of common.lua are made: nobody stands in line and nothing rests.
if gone and not heard and ARGV[5] ~= '1' and call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  heard = call('PUBLISH', ARGV[2], '0')
end
if heard and heard <= tonumber(ARGV[3]) then
  return 1
end
--@include tokens.lua
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
