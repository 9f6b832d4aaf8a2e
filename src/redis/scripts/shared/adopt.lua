-- Give an owner's hold to its heir, with at least the given lease. A second heir finds nothing. Harmless when repeated.
-- An heir that was given up gets nothing any more.
-- KEYS: lock, about. ARGV: owner, heir, lease, first: ids of this client from that number on are earlier tries, and one
-- of them may have the hold instead of the owner.
-- Returns {1} where the heir holds, else {0}: the form of renew.lua.
--@include held.lua
--@include extend.lua
--@include buried.lua
--@include heirs.lua
local lock, heir = KEYS[1], ARGV[2]
local from = held(lock, ARGV[1]) and ARGV[1] or heir_of(lock, heir, ARGV[4])
if not from or from ~= heir and buried(KEYS[2], heir) then
  return { 0 }
end
extend(lock, ARGV[3]) -- first: a full server would refuse the next one as the first write
if from ~= heir then
  redis.call('HSET', lock, heir, '1')
  redis.call('HDEL', lock, from)
end
return { 1 }
