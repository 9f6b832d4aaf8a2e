-- The number of all permits, those that are out among them, is kept beside the answers of sem_once.lua, as far as it is
-- known: N alone tells what is left. With it a count that the server has lost is made again from the holders.
--   once   "=" -> the total
local YEAR = 365 * 86400000

local function total()
  return tonumber(call('HGET', once, '=') or nil)
end

-- This must not be the first write of a script that has to work on a full server.
local function keep_total(number)
  call('HSET', once, '=', text(number))
  call('PEXPIRE', once, YEAR)
end

-- N is gone while permits are out: make it again. Nothing when the total is not known, or on a full server. Returns the
-- permits left, and whether N is there now. Without permits that are out N was deleted: nobody makes it again but "set".
local function mend(out)
  local all = out > 0 and total()
  if not all or redis.pcall('SET', lock, text(all - out)).err then
    return 0, false
  end
  return all - out, true
end
