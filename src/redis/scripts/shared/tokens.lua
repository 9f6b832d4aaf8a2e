-- Reserve up to block tokens on the counter fence, above all before; returns the first, and how many they are when they are
-- fewer. The last is the server's time in microseconds, or one above the last before where the counter is ahead of that time.
-- So a counter never runs ahead of the clock by itself, and tokens made after the server has lost its memory are higher than
-- all before: a script takes longer than a microsecond. Nobody knows what was reserved before a counter that is new: it is one.
-- It is the first write of a grant: a server that is full refuses the grant here, when nothing has been changed.
-- The counter then lives for keep ms or up to a sixteenth less; one that has no end, as Redisson makes it, gets none.
-- That is asked at each grant: a MultiLock of Redisson ends the counter with its own lease.
-- count: what the counter says, as far as that is known.
local function tokens(fence, micros, block, keep, count)
  local call, last, got, before, left = redis.call, micros, 1, nil, nil
  block = tonumber(block)
  count = count or call('GET', fence)
  if count then
    before = tonumber(count) or 0
    if before >= last then
      last = before + 1
    end
    got = math.min(block, last - before)
    left = call('PTTL', fence)
  end
  if count and (left == -1 or left > keep * 15 / 16) and count:find('^[1-9]%d*$') then
    call('INCRBY', fence, last - before)
  else
    call('SET', fence, last, 'PX', keep)
  end
  return last - got + 1, got < block and got or nil
end
