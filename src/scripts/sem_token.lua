-- A new block of tokens, above all before; returns the first. It is the first write of a grant: a server that is full refuses
-- the grant here, when nothing has been changed.
local function reserve(block, keep)
  local fence, token = KEYS[2], now()
  local before = call('GET', fence)
  if before then
    token = math.max(token, (tonumber(before) or 0) + 1)
  end
  local last = text(token + block - 1)
  if before and call('PTTL', fence) == -1 then
    call('SET', fence, last)
  else
    call('SET', fence, last, 'PX', keep)
  end
  return token
end
