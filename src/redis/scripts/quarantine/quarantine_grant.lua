-- Before a script that grants: {-3, ms left} while nobody is granted anything, {-4, longest lease of the server} for clients
-- that go by another one.
local write = redis.call
--@include quarantine.lua
if quiet then
  return quiet
end
-- What is held by one of ours longer than any lease may be: the server's clock was set back. Holds that rest, and those of
-- Redisson, have no such limit. Of a read-write lock only the writer is known by the lock's end.
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
