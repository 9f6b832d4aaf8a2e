-- Give the hold of an owner to its heir, who then has it with at least that lease; a second heir finds nothing. The same sent
-- twice is once. KEYS: lock; ARGV: owner, heir, lease. 1 where the heir holds, else 0, as renew.lua has it.
--@include held.lua
--@include extend.lua
local lock, owner, heir = KEYS[1], ARGV[1], ARGV[2]
local adopted = held(lock, heir)
if not adopted and not held(lock, owner) then
  return { 0 }
end
extend(lock, ARGV[3]) -- first: a full server would refuse the next one as the first write
if not adopted then
  redis.call('HSET', lock, heir, '1')
  redis.call('HDEL', lock, owner)
end
return { 1 }
