-- Give permits back. Returns 1 + the number of other processes that wait; 0 when owner had none; -1 for another kind of
-- key. Harmless when repeated.
-- KEYS: lock, fence, gate, taken, holders, once. ARGV: owner, channel, listening, rest, doubt, permits
--@include sem_counter.lua
--@include sem_once.lua
--@include sem_holders.lua
local taken, holders = KEYS[4], KEYS[5]
if not count() then
  return -1
end
-- A full server refuses a command that may take memory, but only as the first write of a script. ZREM takes none.
local gone = call('ZREM', taken, ARGV[1])
call('ZREM', holders, holder(ARGV[1], ARGV[6]))
if gone == 0 then
  -- The acquire may still be under way on a connection that was given up, and nobody would release what it takes. So
  -- for a while this id gets nothing.
  remember(ARGV[1], 0, 0, WHILE)
  return 0
end
local left = call('INCRBY', lock, ARGV[6])
if ARGV[5] == '1' then
  remember(ARGV[1], 0, 0, WHILE)
end
return 1 + math.max(announce(ARGV[2], left, left) - ARGV[3], 0)
