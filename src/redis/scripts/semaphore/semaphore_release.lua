-- Give permits back, or leave the line. Returns 1 + the number of other processes that are subscribed; 0 when owner had
-- none; -1 for another kind of key. Harmless when repeated.
-- KEYS: lock, fence, gate, taken, holders, turns, once. ARGV: owner, channel, listening, rest, doubt: "1" where a request
-- for the owner may still be under way, permits, stays: "1" where the process stays in line
--@include sem_counter.lua
--@include sem_once.lua
--@include sem_total.lua
--@include sem_holders.lua
local taken, holders, turns = KEYS[4], KEYS[5], KEYS[6]
--@include shared/turns.lua
--@include sem_turns.lua
local left, there = count()
if not left then
  return -1
elseif not there then
  left = mend(held(holders))
end
-- A full server refuses a command that may take memory, but only as the first write of a script. ZREM takes none.
local mine = holder(ARGV[1], ARGV[6])
local gone = call('ZREM', taken, ARGV[1], mine)
gone = math.min(gone + call('ZREM', holders, mine), 1) -- one of them may be lost
local left_line = leave_unless(ARGV[7], ARGV[1])
if gone == 1 then
  left = call('INCRBY', lock, ARGV[6])
end
-- The acquire may still be under way on a connection that was given up, and nobody would release what it takes. So for a
-- while this id gets nothing.
if ARGV[5] == '1' then
  remember(ARGV[1], 0, 0, WHILE)
end
if gone == 1 then
  return 1 + math.max(announce_all(ARGV[2], left, left, left) - ARGV[3], 0)
elseif left_line then
  in_line('call_next', left)
  in_line('tell_first')
end
return 0
