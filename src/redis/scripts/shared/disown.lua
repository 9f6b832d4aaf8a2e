-- Undo an adoption that nobody learned of: the heir's hold is the owner's again. The owner has handed it over already,
-- and the waiter that received it may adopt it. The heir gets nothing any more, however late a request for it comes.
-- Returns 1 where the heir held, else 0.
-- KEYS: lock, about; ARGV: heir, owner, first: the same for heirs of this client from that number on, of earlier tries
local lock, about = KEYS[1], KEYS[2]

--@include millis.lua
--@include bury.lua
--@include heirs.lua
bury(ARGV[1])
local heir = heir_of(lock, ARGV[1], ARGV[3])
if not heir or heir == ARGV[2] then
  return 0
end
redis.call('HSET', lock, ARGV[2], '1')
redis.call('HDEL', lock, heir)
return 1
