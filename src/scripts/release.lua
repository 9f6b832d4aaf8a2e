-- Release, or leave the line. KEYS: lock, fence, line, about, gate.
-- ARGV: owner, channel, listening, rest: ms the lock stays taken.
-- The usual case first, before the functions of common.lua are made: nobody stands in line and nothing rests.
local call, gone, heard = redis.call, nil, nil
if ARGV[4] == '0' and call('HDEL', KEYS[1], ARGV[1]) == 1 then
  gone = true
end
if gone and call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  heard = call('PUBLISH', ARGV[2], '0')
  if heard <= tonumber(ARGV[3]) then
    return 1
  end
end
--@include tokens.lua
--@include common.lua
--@include giveup.lua
if heard then
  if foreigners(ARGV[2], tonumber(ARGV[3])) > 0 then
    open_turn()
  end
  return 1
end
return give_up(ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), gone)
