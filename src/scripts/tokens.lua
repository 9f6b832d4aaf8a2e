-- A new block of tokens from the counter fence, above all before and not below micros; returns the first. It is the first
-- write of a grant: a server that is full refuses the grant here, when nothing has been changed.
-- The counter then lives for keep ms or up to a sixteenth less; one that has no end, as Redisson makes it, gets none.
-- That is asked at each grant: a MultiLock of Redisson ends the counter with its own lease.
-- count: what the counter says, as far as that is known.
local function tokens(fence, micros, block, keep, count)
  local call, token, before, left = redis.call, micros, nil, nil
  count = count or call('GET', fence)
  if count then
    before = tonumber(count) or 0
    if before >= token then
      token = before + 1
    end
    left = call('PTTL', fence)
  end
  local last = token + block - 1
  if count and (left == -1 or left > keep * 15 / 16) and count:find('^[1-9]%d*$') then
    call('INCRBY', fence, last - before)
  else
    call('SET', fence, last, 'PX', keep)
  end
  return token
end
