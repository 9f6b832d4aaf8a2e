-- A waiter of ours gets the free lock.
-- A grant names so many waiters at most that come next.
local NEXT = 31

local function client(owner)
  return owner:sub(1, 36)
end

-- The channel of its process, as in give.lua.
local function ear(owner)
  return 'dlock_client:' .. lock:sub(1, tonumber(owner:sub(16, 18), 16)) .. owner:sub(1, 36)
end

-- Whether the process of a waiter of ours is subscribed.
local function ears(owner)
  return call('PUBSUB', 'NUMSUB', ear(owner))[2] > 0
end

local function parse(told)
  local arrived, lease, block, keep, polls, ticket, foreign, till =
    (told or ''):match('^(%d+) (%d+) (%d+) (%d+) (%d) (%S+) (%d) (%d+)$')
  if not till then
    return nil
  end
  return {
    arrived = tonumber(arrived), lease = lease, block = tonumber(block), keep = keep,
    polls = polls == '1', ticket = ticket, foreign = foreign, till = tonumber(till), lives = tonumber(till) > millis(),
  }
end

local subscribed = {}
local function reachable(waiter, told)
  local process = client(waiter)
  if not told.polls and subscribed[process] == nil then
    subscribed[process] = ears(waiter)
  end
  return told.polls or subscribed[process]
end

local function unqueue(waiter)
  call('LREM', queue, '1', waiter)
  call('ZREM', timeouts, waiter)
end

local function forget(waiter)
  unqueue(waiter)
  call('HDEL', about, waiter)
end

-- The numbers of the waiters behind the first one, most at most, while they are of the same process.
local function next_of(first, most)
  local next_ones, numbers = call('LRANGE', queue, 1, math.min(most, NEXT)), {}
  for i = 1, #next_ones do
    if client(next_ones[i]) ~= client(first) then
      break
    end
    numbers[i] = next_ones[i]:sub(38)
  end
  return numbers
end

-- Give the free lock to first. Returns its token; the number of tokens that are reserved; and the numbers of the next
-- waiters, as "7,9,12", that may have it in turn without the server: each has a token, and the release names those that
-- had it. after: the waiter behind it.
local function award(first, told, after)
  local mates = after and told.block > 1 and client(after) == client(first)
  local numbers = mates and next_of(first, told.block - 1) or {}
  local token, tokens = reserve(told.keep, #numbers + 1)
  forget(first)
  hold(first, told.lease, token)
  return token, tokens, table.concat(numbers, ',', 1, tokens - 1)
end

-- Tell first what award() returned.
local function tell(first, told, token, tokens, next_ones)
  call('PUBLISH', ear(first), table.concat({
    'fair', first:sub(38), told.ticket, text(token), text(tokens), next_ones .. ',', lock,
  }, ' '))
end
