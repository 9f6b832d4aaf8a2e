-- Ids that are not granted anything any more. A request for one may still be under way, on a connection that was given up or in
-- a proxy, when the id is released. It would take the lock for nobody. See bury.lua.
--   about   hash, ours; TOMB and the client -> "number until", until in ms since 1970
-- The numbers of one client only go up on one lock. So one field per client stands for all of them up to that number.
local TOMB = 'dlock_tombstone:'

-- The last number buried and until when, nil where there is none.
local function tombstone(about, field)
  local number, till = (redis.call('HGET', about, field) or ''):match('^(%d+) (%d+)$')
  return tonumber(number), tonumber(till)
end

local function buried(about, owner)
  local number = tombstone(about, TOMB .. owner:sub(1, 36))
  return number ~= nil and number >= tonumber(owner:sub(38))
end
