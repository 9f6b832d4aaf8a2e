-- Reserve up to block tokens on the counter fence, all higher than any before. Returns the first token, and their
-- number when it is less than block.
-- The last token is the server's time in microseconds, or the previous last token + 1 when the counter is ahead of that
-- time. So a counter never runs ahead of the clock by itself. Tokens made after the server has lost its memory are
-- higher than all before, because a script takes longer than a microsecond. A new counter does not tell what was
-- reserved before it, so only one token is reserved.
-- This is the first write of a grant: a full server refuses the grant here, before anything has changed.
-- The counter then lives for keep ms, or up to a sixteenth less, after its value is the time: one that is ahead of the
-- clock lives for longer, because a new one begins at the time. A counter without an end, as Redisson makes it, stays
-- so. This is checked at each grant, because a MultiLock of Redisson ends the counter with its own lease.
-- count: the value of the counter, if the caller knows it.
-- keep: in a vote "keep@time", the quorum's time, which stands for this server's: a fast server's counter would be ahead
-- of the others' time, and a server that has forgotten its counters begins at that.
local function tokens(fence, micros, block, keep, count)
  local call, last, got, lasts, before, left = redis.call, micros, 1, tonumber(keep), nil, nil
  if not lasts then
    keep, micros = keep:match('^(%d+)@(%d+)$')
    lasts, last, micros = tonumber(keep), tonumber(micros), tonumber(micros)
  end
  block = tonumber(block)
  count = count or call('GET', fence)
  if count then
    before = tonumber(count) or 0
    if before >= last then
      last = before + 1
      lasts = keep + math.ceil((last - micros) / 1000)
    end
    got = math.min(block, last - before)
    left = call('PTTL', fence)
  end
  if count and (left == -1 or left > lasts - keep / 16) and count:find('^[1-9]%d*$') then
    call('INCRBY', fence, last - before)
  else
    call('SET', fence, last, 'PX', lasts)
  end
  return last - got + 1, got < block and got or nil
end
