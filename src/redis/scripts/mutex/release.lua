-- Release, or leave the line. KEYS: lock, fence, line, about, gate.
-- ARGV: owner, channel, listening, rest: ms the lock stays taken, doubt: "1" where a request for the owner may still be
-- under way.
local call, gone, heard = redis.call, nil, nil
if ARGV[4] == '0' and call('HDEL', KEYS[1], ARGV[1]) == 1 then
  gone = true
end
--@include shared/let_go.lua
