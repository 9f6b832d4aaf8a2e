-- A clock of the server that is set back makes all leases longer by as much: their ends are times of that clock. Who waits tells
-- what its last look saw: when the hold was to end, the last token, and what is left of it by the waiter's own clock. Every
-- grant changes the token and every renewal the end (see extend.lua). So where both are as they were, the holder has not
-- been heard since, and nothing is left to it but that rest. More is the clock's, and is cut off. Holds of Redisson are not
-- touched, nor on servers before 7.0. LONGEST: no lease of ours, with its delay, is longer; SLACK: less is not worth it.
local LONGEST, SLACK = 87000000, 1000

-- {0, ms left, 0, its end in ms since 1970, the last token, ms that were cut off}
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
