-- The first in line gets the lock that has just become free, as pass_on() of common.lua gives it, with fewer commands. Nobody
-- else has the lock, and the gate is open.
local function ear(waiter)
  return 'dlock_client:' .. waiter:sub(1, 36)
end

-- Returns whether somebody got it. If not, nothing has changed: a client of Redisson may be next, or the first in line may be
-- dead or hear nothing.
local function give(channel)
  local lock, fence, line, about = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
  local first = call('ZRANGE', line, '0', '0')[1]
  local waits = first and call('HGET', about, first) or ''
  local deadline, lease, block, keep, seq = waits:match('^(%d+) (%d+) (%d+) (%d+) %d (%d+)$')
  if not seq or call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
    return false
  end
  local time = call('TIME')
  local micros = time[1] * 1000000 + time[2]
  if tonumber(deadline) * 1000 <= micros or call('PUBSUB', 'NUMSUB', ear(first))[2] == 0 then
    return false
  end
  call('ZREM', line, first, '+' .. first, '++' .. first)
  call('HDEL', about, first)
  local token, few = tokens(fence, micros, block, keep)
  call('HSET', lock, first, '1')
  call('PEXPIRE', lock, lease)
  call('PUBLISH', ear(first), string.format('grant %s %s %.0f %s %s', first:sub(38), seq, token, few or block, lock))
  return true
end
