-- How a waiter of ours gets a mutex, included after tokens.lua. All keys are in the lock's slot:
--   lock   hash {owner: "1"}, Redisson's lock
--   fence  string, the highest fencing token reserved so far, Redisson's fenced counter
--   line   zset, processes in line by time of arrival; "*" with a negative score is a foreign turn until that time. Behind
--          all, with the score EARS: "+" and the waiter, when it is subscribed to Redisson's channel; "++", too, when it is
--          subscribed to the plain and the sharded one
--   about  hash, waiter -> "deadline lease block keep polls ticket"; "*" -> credit of foreign clients
--   gate   string, exists while the gate is closed: no waiter of ours gets in, holders go on. In a release during a
--          quarantine this key is missing, which means closed: see quarantine_free.lua
local lock, fence, line, about, gate = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local micros
-- Server time in microseconds, read once.
local function now()
  if not micros then
    local time = redis.call('TIME')
    micros = time[1] * 1000000 + time[2]
  end
  return micros
end

local function millis()
  return math.floor(now() / 1000)
end

local function text(number)
  return string.format('%.0f', number)
end

-- A living waiter's entry; or nil.
local function parse(told)
  local deadline, lease, block, keep, polls, ticket = (told or ''):match('^(%d+) (%d+) (%d+) (%d+) (%d) (%S+)$')
  if not ticket or tonumber(deadline) <= millis() then
    return nil
  end
  return {
    deadline = tonumber(deadline), lease = lease, block = tonumber(block), keep = keep,
    polls = polls == '1', ticket = ticket,
  }
end

local function leave(waiter)
  redis.call('ZREM', line, waiter, '+' .. waiter, '++' .. waiter)
  redis.call('HDEL', about, waiter)
end

-- The channel of its process. Three digits of the uuid are the size of the namespace, which the channel's name has, too.
local function ear(waiter)
  return 'dlock_client:' .. lock:sub(1, tonumber(waiter:sub(16, 18), 16)) .. waiter:sub(1, 36)
end

-- Whether the waiter's process is subscribed. Pattern subscribers do not count.
local function hears(waiter)
  return redis.call('PUBSUB', 'NUMSUB', ear(waiter))[2] > 0
end

local function tell(waiter, message)
  redis.call('PUBLISH', ear(waiter), message)
end

-- Give the free lock to owner with a new block of tokens. Returns what tokens() returns.
local function grant(owner, lease, block, keep)
  local token, few = tokens(fence, now(), block, keep)
  redis.call('HSET', lock, owner, '1')
  redis.call('PEXPIRE', lock, lease)
  return token, few
end

-- Give the free lock to a waiter that has left the line, and tell it.
local function give(waiter, told)
  local token, few = grant(waiter, told.lease, told.block, told.keep)
  local granted = { 'grant', waiter:sub(38), told.ticket, text(token), text(few or told.block), lock }
  tell(waiter, table.concat(granted, ' '))
end
