-- The line of the fair lock: who lives, who comes next. Ours live while they look now and then, and their process hears or
-- polls; Redisson's while they listen on their own channels. In ms:
--   PLACE    the deadlines of ours are so far away at least, for Redisson
--   PATIENCE those of living clients of Redisson at the head
--   SILENT   one that does not listen goes after so long, when a free lock was there for it for CALLED
--   STALLED  one that listens and leaves a free lock alone for so long goes too
--   UNSEEN   what happens in so long without a look is not known
local PLACE, PATIENCE, SILENT, CALLED, STALLED, UNSEEN, DAY = 60000, 300000, 2000, 300, 10000, 3000, 86400000

local function ours(owner)
  return owner:sub(15, 15) == '8'
end

local function client(owner)
  return owner:sub(1, 36)
end

local function ear(owner)
  return 'dlock_client:' .. owner:sub(1, 36)
end

-- Whether somebody listens: those who watch all channels do not count.
local function heard(name)
  return call('PUBSUB', 'NUMSUB', name)[2] > 0
end

-- Whether the process of one of ours does.
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

-- Drop what is told of the dead and of processes without waiters. Returns the living, in line or not: {owner, told}.
local function sweep()
  local flat, told, stays, living = call('HGETALL', about), {}, { ['?'] = true, ['~'] = true }, {}
  for i = 1, #flat, 2 do
    told[flat[i]] = flat[i + 1]
  end
  for field, value in pairs(told) do
    stays[field] = stays[field] or (tonumber(value:match('^%d+ (%d+)$')) or 0) > millis() -- a tombstone, see buried.lua
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

-- A line of ours alone vanishes after a while without a look; one with clients of Redisson is theirs to keep.
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

-- The line is empty. Those of ours whom Redisson gave up come back by arrival. True when one did.
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

-- What was seen of a foreign head: since when it has had no ear, since when it has left a free lock alone ("0": it has one,
-- it has not), when it was seen, its owner.
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

-- The lock is held: a head can leave it alone only from when it is free again.
local function see_held()
  local deaf, idle, _, owner = seen()
  if idle ~= '0' then
    see(deaf, '0', owner)
  end
end

-- For how many ms the foreign head, or its client, has had no ear, and for how many it has left a free lock alone.
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

-- Redisson is not to give it up.
local function assure(first, score)
  local till = millis() + math.max(call('PTTL', lock), 0) + PATIENCE
  if not score or score < till then
    call('ZADD', timeouts, text(till), first)
  end
  keep_line(true)
end

-- Whether one of Redisson's keeps the first place: 'hears' or 'deaf', or nil.
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

-- The first living one in line; what is told of it, or how it stays; the next one; and whether "?" is there, for ours. The
-- dead are removed. Who asks is alive.
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

-- The free lock is for first; after: who stands behind; saw: whether "?" is there.
local function give(first, told, after, saw)
  local token = reserve(told.keep)
  forget(first)
  hold(first, told.lease, token)
  if after and not ours(after) then
    stays(after, false)
  elseif saw then
    see_held()
  end
  return token
end

-- The lock is free: the first living one in line gets it and is told, or is told to come when it is Redisson's.
-- own: who asks; it hears by the reply and gets what it wants now. Returns the first, nil when nobody waits; and the token.
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
    local token = give(first, told, after, saw)
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
