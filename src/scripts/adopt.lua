-- Give the hold of an owner to its heir, who then has it with at least that lease; a second heir finds nothing. The same sent
-- twice is once. KEYS: lock; ARGV: owner, heir, lease. 1 where the heir holds, else 0, as renew.lua has it.
--@include held.lua
--@include extend.lua
local lock, owner, heir = KEYS[1], ARGV[1], ARGV[2]
if not held(lock, heir) then
  if not held(lock, owner) then
    return { 0 }
  end
  redis.call('HSET', lock, heir, '1')
  redis.call('HDEL', lock, owner)
end
extend(lock, ARGV[3])
return { 1 }
