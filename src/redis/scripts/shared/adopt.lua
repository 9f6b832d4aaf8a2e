-- Give an owner's hold to its heir, who presents the proof that the owner gave away. A second heir finds nothing. Harmless
-- when repeated. An heir that was given up gets nothing any more.
-- KEYS: lock, about. ARGV: owner, heir, the heir's delay, first, proof. first: ids of this client from that number on are
-- earlier tries, and one of them may have the hold instead of the owner.
-- Returns {1, token, lease} where the heir holds, as the owner has left them here; {0} where there is nothing; {-1}: the
-- proof is another one.
--@include held.lua
--@include extend.lua
--@include buried.lua
--@include heirs.lua
--@include exported.lua
local lock, about, owner, heir = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local sum, token, lease = exported(about, owner)
if sum and sum ~= redis.sha1hex(ARGV[5]) then
  return { -1 }
end
local from = sum and (held(lock, owner) and owner or heir_of(lock, heir, ARGV[4]))
if not from or from ~= heir and buried(about, heir) then
  return { 0 }
end
extend(lock, lease + tonumber(ARGV[3])) -- first: a full server would refuse the next one as the first write
keep_offer(about, lock)
if from ~= heir then
  redis.call('HSET', lock, heir, '1')
  redis.call('HDEL', lock, from)
end
return { 1, token, lease }
