-- Acquire permits of a semaphore. N counts those that are left; it does not tell who has the others. The same id sent
-- twice gets the same grant. A waiter for one permit stands in line, and is told when its turn has come. Returns {1,
-- token, tokens, permits that are left}; {1, token, 1}: it was granted before; {0, ms until the next probe or -1, 1 when
-- it must listen to Redisson's channel}: too few are left; {0, 0, 2}: this id gets nothing any more; {-1}: another kind
-- of key; {-2}: the gate is closed.
--   taken    zset, id -> token: by it, repeated acquires and releases are recognised; see sem_holders.lua
--   holders  zset, "permits id" -> the ms until which the holder is known to live
--   turns    zset, processes that wait for a permit, see turns.lua
-- KEYS: lock, fence, gate, taken, holders, turns, once. ARGV: owner, lease, permits, mode (0 try, 1 line, 2 poll),
-- listening, beat, keep, ticket, channel, "", block
--@include sem_counter.lua
--@include sem_token.lua
--@include sem_holders.lua
local gate, taken, turns, once = KEYS[3], KEYS[4], KEYS[6], KEYS[7]
--@include sem_total.lua
--@include shared/turns.lua
--@include sem_turns.lua
local owner, permits = ARGV[1], tonumber(ARGV[3])

local left, there = count()
if not left then
  return { -1 }
elseif not there then
  left = mend(held(KEYS[5]))
end
local token = call('ZSCORE', taken, owner)
if token then
  call('PEXPIRE', taken, YEAR) -- a write, for replicas to confirm
  lives(KEYS[5], owner, ARGV[3], ARGV[2])
  return { 1, tonumber(token), 1 }
end
if call('EXISTS', gate) == 1 then
  return { -2 }
end
-- A reclaim gave back what an earlier request of a waiter had taken, and the waiter never saw that answer.
if call('HEXISTS', once, owner) == 1 then
  return { 0, 0, 2 }
end
local others, refused = turn_of(owner, permits, left, -1)
if refused then
  return refused
end
local few
token, few = reserve(ARGV[7], ARGV[11])
call('DECRBY', lock, ARGV[3])
if permits == 1 and tonumber(ARGV[2]) <= PRESUMED then
  call('ZADD', taken, text(token), owner)
else
  call('ZADD', taken, text(token), owner, text(ABOUT + ARGV[2]), holder(owner, ARGV[3]))
end
call('PEXPIRE', taken, YEAR)
if not lives(KEYS[5], owner, ARGV[3], ARGV[2]) then -- it had them already, and taken was lost
  call('INCRBY', lock, ARGV[3])
  left = left + permits
end
-- A token tells when it was made. So what crashed clients left is removed after a YEAR, and so are permits that are
-- held for so long.
call('ZREMRANGEBYSCORE', taken, '-inf', text(now() - YEAR * 1000))
call('ZREMRANGEBYSCORE', KEYS[5], '-inf', text(millis() - YEAR))
if others then
  turn_over(owner, left - permits)
end
return { 1, token, few, left - permits }
