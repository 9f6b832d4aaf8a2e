-- The answer to a request is kept for a while. A request sent again with the same id gets the same answer and changes
-- nothing.
--   once   hash, the last of KEYS, id -> "until code value", until in seconds; "*" -> where the sweep goes on
local once = KEYS[#KEYS]
local WHILE, FEW, EVERY, SWEEP, DAY = 120000, 1000, 16, 50, 86400000

-- The kept answer {code, value}, or nil.
local function parse(told)
  if told then
    local code, value = told:match('^%d+ (%d) (%-?%d+)$')
    return { tonumber(code), tonumber(value) }
  end
end

local function recall(id)
  return parse(call('HGET', once, id))
end

-- The same, and two numbers that are kept beside the answers, or nil.
local function recall_with(id, one, other)
  local said = call('HMGET', once, id, one, other)
  return parse(said[1]), tonumber(said[2] or nil), tonumber(said[3] or nil)
end

-- The key expires when nothing is added for a while. In a busy key, expired entries are removed a few at a time.
local function sweep()
  local found = call('HSCAN', once, call('HGET', once, '*') or '0', 'COUNT', SWEEP)
  for i = 1, #found[2], 2 do
    local last = found[2][i + 1]:match('^(%d+) ')
    if last and last * 1000 < millis() then
      call('HDEL', once, found[2][i])
    end
  end
  call('HSET', once, '*', found[1])
end

-- Keep an answer for lasts ms. This must not be the first write of a script that has to work on a full server.
local function remember(id, code, value, lasts)
  local last = text(math.ceil((millis() + lasts) / 1000))
  call('HSET', once, id, last .. ' ' .. code .. ' ' .. text(value))
  local left = call('PTTL', once)
  if left < lasts then
    call('PEXPIRE', once, text(lasts))
  elseif left > 90 * DAY and left < 180 * DAY then -- it was to live for a year, see sem_total.lua
    call('PEXPIRE', once, text(365 * DAY))
  end
  local entries = call('HLEN', once)
  if entries > FEW and entries % EVERY == 0 then
    sweep()
  end
end
