-- The line of the fair lock: which waiters live, and which comes next. Ours live while they probe now and then and
-- their process is subscribed or polls. Redisson's live while they are subscribed to their own channels. In ms:
--   PLACE    least time to the deadline of a waiter of ours, for Redisson
--   PATIENCE least time to the deadline of a living client of Redisson at the head
--   SILENT   a client of Redisson that is not subscribed is removed after so long, when a free lock was there for it
--            for CALLED
--   STALLED  one that is subscribed and leaves a free lock alone for so long is removed, too
--   UNSEEN   without a probe for so long, it is unknown what happened
local PLACE, PATIENCE, SILENT, CALLED, STALLED, UNSEEN, DAY = 60000, 300000, 2000, 300, 10000, 3000, 86400000
-- A grant names so many waiters at most that come next.
local NEXT = 31

local function ours(owner)
  return owner:sub(15, 15) == '8'
end

local function client(owner)
  return owner:sub(1, 36)
end

local function ear(owner)
  return 'dlock_client:' .. owner:sub(1, 36)
end

-- Whether the channel has a subscriber. Pattern subscribers do not count.
local function heard(name)
  return call('PUBSUB', 'NUMSUB', name)[2] > 0
end

-- Whether the process of a waiter of ours is subscribed.
local function ears(owner)
  return call('PUBSUB', 'NUMSUB', ear(owner))[2] > 0
end

local function parse(told)
  local arrived, lease, block, keep, polls, seq, foreign, till =
    (told or ''):match('^(%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d) (%d+)$')
  if not till then
    return nil
  end
  return {
    arrived = tonumber(arrived), lease = lease, block = tonumber(block), keep = keep,
    polls = polls == '1', seq = seq, foreign = foreign, lives = tonumber(till) > millis(),
  }
end

local function reachable(waiter, told)
  return told.polls or ears(waiter)
end

local function unqueue(waiter)
  call('LREM', queue, 1, waiter)
  call('ZREM', timeouts, waiter)
end

local function forget(waiter)
  unqueue(waiter)
  call('HDEL', about, waiter)
end

-- Remove the records of the dead and of processes without waiters. Returns the living, in line or not, as {owner,
-- told}.
local function sweep()
  local flat, told, stays, living = call('HGETALL', about), {}, { ['?'] = true, ['~'] = true }, {}
  for i = 1, #flat, 2 do
    told[flat[i]] = flat[i + 1]
  end
  for field, value in pairs(told) do
    local one = ours(field) and parse(value)
    if one and one.lives then
      stays[field] = true
      living[#living + 1] = { owner = field, told = one }
    end
  end
  stays['!'] = told['!'] and call('HEXISTS', lock, told['!']:match('^%S*')) == 1
  for i = 1, #flat, 2 do
    if not stays[flat[i]] then
      call('HDEL', about, flat[i])
    end
  end
  return living
end

-- A line of ours alone expires after a while without a probe. A line with clients of Redisson has no end: it is theirs
-- to keep.
local function keep_line(foreign)
  local left = call('PTTL', queue)
  if foreign and left > 0 then
    call('PERSIST', queue)
    call('PERSIST', timeouts)
  elseif not foreign and left < DAY / 2 then
    call('PEXPIRE', queue, DAY)
    call('PEXPIRE', timeouts, DAY)
  end
end

-- The line is empty. Waiters of ours that Redisson gave up come back, in order of arrival. Returns true when one did.
local function revive()
  if call('ZCARD', timeouts) > 0 then
    call('DEL', timeouts)
  end
  local living, came = sweep(), false
  call('HDEL', about, '?', '~')
  table.sort(living, function(one, other)
    return one.told.arrived < other.told.arrived
  end)
  for i = 1, #living do
    if reachable(living[i].owner, living[i].told) then
      call('RPUSH', queue, living[i].owner)
      call('ZADD', timeouts, text(millis() + PLACE), living[i].owner)
      came = true
    end
  end
  if came then
    keep_line(false)
  end
  return came
end

-- What was seen of a foreign head: since when it has not been subscribed ("0": it is); since when it has left a free
-- lock alone ("0": it has not); when it was seen; its owner.
local function seen()
  local was = call('HGET', about, '?') or '0 0 0 '
  return was:match('^(%d+) (%d+) (%d+) (.*)$')
end

local function see(deaf, idle, owner)
  if deaf == '0' and idle == '0' then
    call('HDEL', about, '?')
  else
    call('HSET', about, '?', table.concat({ deaf, idle, text(millis()), owner }, ' '))
    keep_for(about, 2 * STALLED)
  end
end

-- The lock is held: the time for which the head leaves a free lock alone starts anew.
local function see_held()
  local deaf, idle, _, owner = seen()
  if idle ~= '0' then
    see(deaf, '0', owner)
  end
end

-- Returns for how many ms the foreign head, or its client, has not been subscribed, and for how many it has left a free
-- lock alone.
local function observe(first, hears, free)
  local deaf, idle, last, owner = seen()
  local at = text(millis())
  if owner ~= first or at - last > UNSEEN then
    idle = '0'
    deaf = client(owner) == client(first) and deaf or '0'
  elseif at - last < 0 then -- the clock was set back
    deaf, idle = '0', '0'
  end
  deaf = hears and '0' or deaf ~= '0' and deaf or at
  idle = not free and '0' or idle ~= '0' and idle or at
  see(deaf, idle, first)
  return hears and 0 or at - deaf, free and at - idle or 0
end

-- Move the deadline, so that Redisson does not give it up.
local function assure(first, score)
  local till = millis() + math.max(call('PTTL', lock), 0) + PATIENCE
  if not score or score < till then
    call('ZADD', timeouts, text(till), first)
  end
  keep_line(true)
end

-- Whether a client of Redisson's keeps the first place: 'hears' when it is subscribed, 'deaf' when not; nil when it
-- does not keep it.
local function stays(first, free)
  local score = tonumber(call('ZSCORE', timeouts, first))
  local hears = heard(channel .. ':' .. first)
  if not hears and score and score <= millis() then
    return nil
  end
  local deaf, idle = observe(first, hears, free)
  if deaf >= SILENT and idle >= CALLED or idle >= STALLED then
    return nil
  end
  if hears then
    assure(first, score)
  end
  return hears and 'hears' or 'deaf'
end

-- The first living waiter; its record, or for Redisson's the result of stays(). For ours also the waiter behind it, and
-- "?" if there. Dead waiters are removed. own asks, so it lives.
local function head(own, free)
  while true do
    local two = call('LRANGE', queue, 0, 1)
    local first = two[1]
    if not first then
      if not revive() then
        return nil
      end
    elseif ours(first) then
      local known = call('HMGET', about, first, '?')
      local told = parse(known[1])
      if first ~= own and not (told and told.lives) then
        forget(first)
      elseif first == own or not free or reachable(first, told) then
        return first, told, two[2], known[2]
      else
        unqueue(first)
      end
    else
      local how = stays(first, free)
      if how then
        return first, how
      end
      unqueue(first)
    end
  end
end

-- The head is a client of Redisson's that may be dead. One of ours is told to probe, so that somebody does.
local function nudge()
  local next_ones = call('LRANGE', queue, 1, 8)
  for i = 1, #next_ones do
    if ours(next_ones[i]) then
      call('PUBLISH', channel .. ':' .. next_ones[i], '0')
      return
    end
  end
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
-- had it. after: the waiter behind it. saw: "?" if there.
local function give(first, told, after, saw)
  local numbers = after and told.block > 1 and next_of(first, told.block - 1) or {}
  local token, tokens = reserve(told.keep, #numbers + 1)
  forget(first)
  hold(first, told.lease, token)
  if after and not ours(after) then
    stays(after, false)
  elseif saw then
    see_held()
  end
  return token, tokens, table.concat(numbers, ',', 1, tokens - 1)
end

-- The lock is free: the first living waiter gets it and is told. A client of Redisson's is told to come. own: the
-- caller, if it waits; it gets the reply instead of a message, and what it wants now. Returns the first waiter, nil
-- when nobody waits; and what give() returns.
local function hand_on(own, want)
  local first, told, after, saw = head(own, true)
  if not first then
    return nil
  end
  if not ours(first) then
    call('HDEL', about, '!')
    call('PUBLISH', channel .. ':' .. first, '0')
    if told == 'deaf' and not own then
      nudge()
    end
    return first
  end
  if first == own then
    return first, give(first, want, after, saw)
  end
  if gate and call('EXISTS', gate) == 0 then
    local token, tokens, next_ones = give(first, told, after, saw)
    call('PUBLISH', ear(first), table.concat({
      'fair', first:sub(38), told.seq, text(token), text(tokens), next_ones .. ',', lock,
    }, ' '))
    return first, token
  end
  return first
end

-- Leave the line, if waiter is in it.
local function leave(waiter)
  if call('ZREM', timeouts, waiter) + call('HDEL', about, waiter) == 0 then
    return
  end
  call('LREM', queue, 1, waiter)
  if call('EXISTS', lock) == 0 then
    hand_on()
  else
    head(nil, false)
  end
end
