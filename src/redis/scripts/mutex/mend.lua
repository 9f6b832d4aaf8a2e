-- When the server's clock is set back, all leases become longer by as much: their ends are times of that clock. A
-- waiter sends what its last probe saw: when the hold was to end, the last token, and what is left of the hold by the
-- waiter's own clock. Every grant changes the token, and every renewal changes the end (see extend.lua). If both are
-- unchanged, the holder has not renewed since, and only that rest is left to it. Anything beyond it comes from the
-- clock, and is cut off. Holds of Redisson are left alone, and so are all holds on servers before 7.0.
-- LONGEST: in ms; no lease of ours, with its delay, is longer. SLACK: in ms; a smaller cut is not worth it.
local LONGEST, SLACK = 87000000, 1000

-- Returns {0, ms left, 0, the hold's end in ms since 1970, the last token, ms that were cut off}.
local function mend(seen, token, rest)
  local left, ends = redis.call('PTTL', lock), redis.pcall('PEXPIRETIME', lock)
  local last = tonumber(redis.call('GET', fence))
  if type(ends) ~= 'number' or not last then
    return { 0, left, 0 }
  end
  local most, cut = LONGEST, 0
  if tonumber(seen) == ends and tonumber(token) == last then
    most = math.min(most, tonumber(rest))
  end
  if left > most + SLACK then
    redis.call('PEXPIRE', lock, most)
    left, cut, ends = most, left - most, redis.call('PEXPIRETIME', lock)
  end
  return { 0, left, 0, ends, last, cut }
end
