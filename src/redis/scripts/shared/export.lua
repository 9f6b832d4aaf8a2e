-- Offer owner's hold to whoever presents the proof, and make it live for the lease. Owner holds it until then. A copy of an
-- earlier attempt, that comes late, changes nothing. From now on requests for the hold that are still under way get nothing
-- once it is adopted: owner is buried, though it holds.
-- KEYS: lock, about. ARGV: owner, lease with its delay, attempt, token, lease, proof
-- Returns {1}; {0} where owner does not hold, {-1} where a later attempt stands.
--@include held.lua
--@include extend.lua
--@include exported.lua
local lock, about = KEYS[1], KEYS[2]

--@include millis.lua
--@include bury.lua
local owner, attempt, sum = ARGV[1], tonumber(ARGV[3]), redis.sha1hex(ARGV[6])
local before, _, _, last = exported(about, owner)
if not held(lock, owner) then
  return { 0 }
elseif before and before ~= sum and last >= attempt then
  return { -1 }
end
extend(lock, ARGV[2]) -- first: a full server would refuse the next one as the first write
bury(owner)
redis.call('HSET', about, EXPORT, table.concat({ owner, ARGV[3], ARGV[4], ARGV[5], sum }, ' '))
keep_offer(about, lock)
return { 1 }
