-- Pass a latch. Returns {1, 1}: it is open or was never set; {0, -1, 1}: not yet; {-1}: another kind of key; {-2}: the
-- gate is closed.
-- KEYS: lock, fence, gate, once
--@include semaphore/sem_counter.lua
local left = count()
if not left then
  return { -1 }
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return { -2 }
end
if left > 0 then
  return { 0, -1, 1 }
end
return { 1, 1 }
