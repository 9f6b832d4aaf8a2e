-- A new block of tokens from the counter fence, above all before and not below micros; returns the first. It is the first
-- write of a grant: a server that is full refuses the grant here, when nothing has been changed.
-- The counter then lives for keep ms or up to a sixteenth less: only the first in a sixteenth of keep, by the clock that its
-- tokens are, sets that anew. One that lives longer, or has no end, as Redisson makes it, is left so.
-- count: what the counter says, as far as that is known.
local function tokens(fence, micros, block, keep, count)
  local call, token, set = redis.call, micros, false
  count = count or call('GET', fence)
  local number, period = tonumber(count), keep * 1000 / 16
  if number then
    token = math.max(micros, number + 1)
  end
  local last = token + block - 1
  if number then
    local first = math.min(micros, number)
    set = first - first % period == last - last % period
  end
  if number and not set and count:find('^[1-9]%d*$') then
    local left = call('PTTL', fence)
    set = left == -1 or left > keep * 1
  end
  if set then
    call('INCRBY', fence, string.format('%.0f', last - number))
  else
    call('SET', fence, string.format('%.0f', last), 'PX', keep)
  end
  return token
end
