-- Buried ids are granted nothing any more. When an id is released, a request for it may still be under way, in a proxy
-- or on a connection that was given up. That request would take the lock for nobody. See bury.lua.
--   about   hash, ours; TOMB and whose -> "number until", until in ms since 1970
-- A mutex is wanted by one id of a client at a time, and their numbers only go up. So one field per client stands for all
-- its ids up to that number. In a fair lock several wait: there whose is the id itself.
local TOMB = 'dlock_tombstone:'

-- The highest buried number and until when it is buried; nil when there is none.
local function tombstone(about, field)
  local number, till = (redis.call('HGET', about, field) or ''):match('^(%d+) (%d+)$')
  return tonumber(number), tonumber(till)
end

local function buried(about, owner, whose)
  local number = tombstone(about, TOMB .. (whose or owner:sub(1, 36)))
  return number ~= nil and number >= tonumber(owner:sub(38))
end
