-- Give permits back. Returns 1 + the number of other processes that wait; 0 when one of the permits was gone or its lease
-- had ended: the others come back all the same; -1 for keys of another kind. With a rest they stay out for so many ms
-- more. Harmless when repeated.
-- KEYS: lock, fence, gate, leases, once. ARGV: owner, channel, listening, rest, doubt, permits
--@include semaphore/sem_counter.lua
--@include semaphore/sem_once.lua
--@include permit_ids.lua
--@include permit_pool.lua
if not pool() then
  return -1
end
local rest, ids = tonumber(ARGV[4]), ids_of(ARGV[1], ARGV[6])
local found, lowest = present(leases, ids)

-- A request for the id may still be under way, so for a while it gets nothing. This must not be the first write.
local function bury()
  if ARGV[5] == '1' then
    remember(ARGV[1], 0, 0, WHILE)
  end
end

local whole = #found == #ids and lowest > millis()
if whole and rest > 0 then
  reset(leases, ids, end_of(rest))
  bury()
  call('PUBLISH', ARGV[2], tostring(#ids)) -- to those who sleep until the lease would have ended
  return 1
end
call('HDEL', KEYS[5], ARGV[1])
bury()
local _, told = 0, 0
if #found > 0 then
  _, told = give_back(found, ARGV[2])
end
return whole and 1 + math.max(told - ARGV[3], 0) or 0
