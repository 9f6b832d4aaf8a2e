-- Release, or leave the line. KEYS: lock, fence, line, about, gate.
-- ARGV: owner, channel, listening, rest: ms the lock stays taken. What other kinds need behind that is ignored.
-- The usual case first, before the functions of common.lua are made: nobody stands in line and nothing rests.
local call, heard = redis.call, nil
if ARGV[4] == '0' and call('EXISTS', KEYS[3]) == 0 and call('HDEL', KEYS[1], ARGV[1]) == 1 then
  if call('EXISTS', KEYS[1]) == 1 then -- a read or a write of Redisson's has entered the hash: it stays
    return 1
  end
  heard = call('PUBLISH', ARGV[2], '0')
  if heard <= tonumber(ARGV[3]) then
    return 1
  end
end
--@include common.lua
--@include giveup.lua
if heard then
  if foreigners(ARGV[2], tonumber(ARGV[3])) > 0 then
    open_turn()
  end
  return 1
end
return give_up(ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]))
