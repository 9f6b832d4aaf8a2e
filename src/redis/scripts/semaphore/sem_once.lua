-- The answer to a request is kept for a while. A request sent again with the same id gets the same answer and changes
-- nothing.
--   once   hash, the last of KEYS, id -> "until code value", until in seconds; "*" -> where the sweep goes on
local once = KEYS[#KEYS]
local WHILE, FEW, EVERY, SWEEP = 120000, 1000, 16, 50

-- The kept answer {code, value}, or nil.
local function recall(id)
  local told = call('HGET', once, id)
  if told then
    local code, value = told:match('^%d+ (%d) (%-?%d+)$')
    return { tonumber(code), tonumber(value) }
  end
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
  if call('PTTL', once) < lasts then
    call('PEXPIRE', once, text(lasts))
  end
  local entries = call('HLEN', once)
  if entries > FEW and entries % EVERY == 0 then
    sweep()
  end
end
