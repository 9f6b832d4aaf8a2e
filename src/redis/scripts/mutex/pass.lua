-- Release one id, and at once try with another: {released, reply of the try}. KEYS: lock, fence, line, about, gate.
-- ARGV: owner, lease, block, mode, listening, beat, keep, ticket, then the owner to release, the channel, its rest, and
-- "1" where a request for the owner that is released may still be under way.
-- The usual case comes first, as in release.lua and quick.lua: the process is alone.
--@include shared/tokens.lua
local call, gone, heard = redis.call, nil, nil
if ARGV[11] == '0' and call('HDEL', KEYS[1], ARGV[9]) == 1 then
  gone = true
end
if gone and ARGV[12] ~= '1' and call('EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[5]) == 0 then
  heard = call('PUBLISH', ARGV[10], '0')
  if heard <= tonumber(ARGV[5]) then
    local time = call('TIME')
    local token, few = tokens(KEYS[2], time[1] * 1000000 + time[2], ARGV[3], ARGV[7])
    call('HSET', KEYS[1], ARGV[1], '1')
    call('PEXPIRE', KEYS[1], ARGV[2])
    return { 1, { 1, token, few } }
  end
end
--@include give.lua
--@include shared/common.lua
--@include shared/bury.lua
--@include try.lua
--@include giveup.lua
local released = 1
if ARGV[12] == '1' then
  bury(ARGV[9])
end
if not heard then
  released = give_up(ARGV[9], ARGV[10], tonumber(ARGV[5]), tonumber(ARGV[11]), gone)
elseif foreigners(ARGV[10], tonumber(ARGV[5])) > 0 then
  open_turn()
end
return { released, try(ARGV) }
