-- Whether the key is missing, or has the layout of this kind. The names of kinds are those of base/kind.c.
local COUNTS = { semaphore = true, ['permit semaphore'] = true, latch = true }
local SHARED = { rw = true, read = true, write = true }

local function fits(key, kind)
  local type = redis.call('TYPE', key).ok
  if type == 'none' then
    return true
  elseif COUNTS[kind] then
    return type == 'string'
  end
  return type == 'hash' and (redis.call('HEXISTS', key, 'mode') == 1) == (SHARED[kind] == true)
end
