-- Give permits back, or leave the line. Returns 1 + the number of other processes that are subscribed; 0 when one of the
-- permits was gone or its lease
-- had ended: the others come back all the same; -1 for keys of another kind. With a rest they stay out for so many ms
-- more. Harmless when repeated.
-- KEYS: lock, fence, gate, leases, turns, once. ARGV: owner, channel, listening, rest, doubt, permits, stays: "1" where the
-- process stays in line
--@include semaphore/sem_counter.lua
--@include semaphore/sem_once.lua
--@include semaphore/sem_total.lua
--@include permit_ids.lua
local turns = KEYS[5]
--@include shared/turns.lua
--@include semaphore/sem_turns.lua
--@include permit_pool.lua
local now_left = pool()
if not now_left then
  return -1
end
local rest, ids = tonumber(ARGV[4]), ids_of(lock, ARGV[1], ARGV[6])
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
  in_line('tell_first')
  return 1
end
call('HDEL', once, ARGV[1])
bury()
local left_line, told, _ = leave_unless(ARGV[7], ARGV[1]), 0, nil
if #found > 0 then
  _, told = give_back(found, ARGV[2])
elseif left_line then
  in_line('call_next', now_left)
  in_line('tell_first')
end
return whole and 1 + math.max(told - ARGV[3], 0) or 0
