-- Buried ids are granted nothing any more. When an id is released, a request for it may still be under way, in a proxy
-- or on a connection that was given up. That request would take the lock for nobody. See bury.lua.
--   about   hash, ours; TOMB and the client -> "number until", until in ms since 1970
-- On one lock the numbers of a client only go up. So one field per client stands for all its ids up to that number.
local TOMB = 'dlock_tombstone:'

-- The highest buried number and until when it is buried; nil when there is none.
local function tombstone(about, field)
  local number, till = (redis.call('HGET', about, field) or ''):match('^(%d+) (%d+)$')
  return tonumber(number), tonumber(till)
end

local function buried(about, owner)
  local number = tombstone(about, TOMB .. owner:sub(1, 36))
  return number ~= nil and number >= tonumber(owner:sub(38))
end
