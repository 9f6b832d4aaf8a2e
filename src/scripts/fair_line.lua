-- The line of the fair lock: who lives, who comes next. Ours live while their process looks now and then, and hears or polls;
-- Redisson's while they listen on their own channels. In ms:
--   PLACE    the deadlines of ours are so far away at least, for Redisson
--   PATIENCE those of living clients of Redisson at the head
--   SILENT   one that does not listen goes after so long, when a free lock was there for it for CALLED
--   STALLED  one that listens and leaves a free lock alone for so long goes too
local PLACE, PATIENCE, SILENT, CALLED, STALLED = 60000, 300000, 2000, 300, 10000

local function ours(owner)
  return owner:sub(15, 15) == '8'
end

local function client(owner)
  return '@' .. owner:sub(1, 36)
end

local function ear(owner)
  return 'dlock_client:' .. owner:sub(1, 36)
end

-- Whether somebody listens: those who watch all channels do not count.
local function heard(name)
  return call('PUBSUB', 'NUMSUB', name)[2] > 0
end

local function parse(told)
  local arrived, lease, block, keep, polls, seq, foreign = (told or ''):match('^(%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d)$')
  if not foreign then
    return nil
  end
  return {
    arrived = tonumber(arrived), lease = lease, block = tonumber(block), keep = keep,
    polls = polls == '1', seq = seq, foreign = foreign,
  }
end

local function reachable(waiter, told)
  return told.polls or heard(ear(waiter))
end

local function unqueue(waiter)
  call('LREM', queue, 1, waiter)
  call('ZREM', timeouts, waiter)
end

local function forget(waiter)
  unqueue(waiter)
  call('HDEL', about, waiter)
end

-- Drop what is told of the dead and of processes without waiters. Returns the living, in line or not: {owner, told}.
local function sweep()
  local flat, told, stays, living = call('HGETALL', about), {}, { ['?'] = true, ['~'] = true }, {}
  for i = 1, #flat, 2 do
    told[flat[i]] = flat[i + 1]
  end
  for field, value in pairs(told) do
    local one = ours(field) and parse(value)
    if one and (tonumber(told[client(field)]) or 0) > millis() then
      stays[field], stays[client(field)] = true, true
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

-- The line is empty. Those of ours whom Redisson gave up come back by arrival. True when one did.
local function revive()
  if call('EXISTS', timeouts) == 1 then
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
  return came
end

-- For how many ms the foreign head, or its client, has been without an ear, and for how many it has left a free lock alone.
local function observe(first, deaf, free)
  local was, at = call('HGET', about, '?'), text(millis())
  local since, idle, who = (was or '0 0 '):match('^(%d+) (%d+) (.*)$')
  if who ~= first then
    idle = '0'
    since = client(who) == client(first) and since or '0'
  end
  since = deaf and (since == '0' and at or since) or '0'
  idle = free and (idle == '0' and at or idle) or '0'
  if since == '0' and idle == '0' then
    call('HDEL', about, '?')
    return 0, 0
  end
  local is = since .. ' ' .. idle .. ' ' .. first
  if is ~= was then
    call('HSET', about, '?', is)
    keep_for(about, 2 * STALLED)
  end
  return deaf and at - since or 0, free and at - idle or 0
end

-- Redisson is not to give it up, and the line is Redisson's to keep.
local function assure(first, score)
  local till = millis() + math.max(call('PTTL', lock), 0) + PATIENCE
  if not score or score < till then
    call('ZADD', timeouts, text(till), first)
  end
  if call('PTTL', queue) > 0 then
    call('PERSIST', queue)
    call('PERSIST', timeouts)
  end
end

-- Whether one of Redisson's keeps the first place: 'hears' or 'deaf', or nil.
local function stays(first, free)
  local score = tonumber(call('ZSCORE', timeouts, first))
  local hears = heard(channel .. ':' .. first)
  if not hears and score and score <= millis() then
    return nil
  end
  local deaf, idle = observe(first, not hears, free)
  if deaf >= SILENT and idle >= CALLED or idle >= STALLED then
    return nil
  end
  if hears then
    assure(first, score)
  end
  return hears and 'hears' or 'deaf'
end

-- The first living one in line; and what is told of it, or how it stays. The dead are removed. Who asks is alive.
local function head(own, free)
  while true do
    local first = call('LINDEX', queue, 0)
    if not first then
      if not revive() then
        return nil
      end
    elseif ours(first) then
      local told = parse(call('HGET', about, first))
      local lives = first == own or told and (tonumber(call('HGET', about, client(first))) or 0) > millis()
      if not lives then
        forget(first)
      elseif first == own or not free or reachable(first, told) then
        return first, told
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

-- The head is one of Redisson's that may be dead. One of ours is to look, so that somebody does.
local function nudge()
  local next_ones = call('LRANGE', queue, 1, 8)
  for i = 1, #next_ones do
    if ours(next_ones[i]) then
      call('PUBLISH', channel .. ':' .. next_ones[i], '0')
      return
    end
  end
end

local function give(first, told)
  local token = reserve(told.block, told.keep)
  forget(first)
  hold(first, told.lease, token)
  local after = call('LINDEX', queue, 0)
  if after and not ours(after) then
    stays(after, false)
  end
  return token
end

-- The lock is free: the first living one in line gets it and is told, or is told to come when it is Redisson's.
-- own: who asks; it hears by the reply and gets what it wants now. Returns the first, nil when nobody waits; and the token.
local function hand_on(own, want)
  local first, told = head(own, true)
  if not first then
    return nil
  end
  if not ours(first) then
    call('PUBLISH', channel .. ':' .. first, '0')
    if told == 'deaf' and not own then
      nudge()
    end
    return first
  end
  if first == own then
    return first, give(first, want)
  end
  if call('EXISTS', gate) == 0 then
    local token = give(first, told)
    call('PUBLISH', ear(first), 'fair ' .. first:sub(38) .. ' ' .. told.seq .. ' ' .. text(token) .. ' ' .. lock)
    return first, token
  end
  return first
end

-- Leave the line, if waiter stands there.
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

-- Whether all keys are what they should be; the lock has been looked at.
local function sound()
  ask('LLEN', queue)
  ask('ZCARD', timeouts)
  ask('HLEN', about)
  ask('STRLEN', fence)
  return not wrong
end
