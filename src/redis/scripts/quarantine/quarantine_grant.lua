-- Comes before a script that grants. Returns {-3, ms left} during a quarantine, and {-4, longest lease of the server}
-- to a client that has another longest lease.
local write = redis.call
--@include quarantine.lua
if quiet then
  return quiet
end
-- A hold of ours that lasts longer than any lease: the server's clock was set back, and the hold is cut. Resting holds
-- and those of Redisson have no such limit. Of a read-write lock, the lock's end tells only of the writer.
if (redis.call('PTTL', KEYS[1])) > most and redis.call('TYPE', KEYS[1]).ok == 'hash' then
  local holders = redis.call('HGET', KEYS[1], 'mode') ~= 'read' and redis.call('HKEYS', KEYS[1]) or {}
  local mends = #holders > 0
  for i = 1, #holders do
    mends = mends and (holders[i] == 'mode' or holders[i]:sub(15, 15) == '8' and holders[i]:sub(-5) ~= ':rest')
  end
  if mends then
    redis.call('PEXPIRE', KEYS[1], most)
  end
end
