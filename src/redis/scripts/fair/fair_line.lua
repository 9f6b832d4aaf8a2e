-- The line of the fair lock: which waiters live, and which comes next. Ours live while they probe now and then and
-- their process is subscribed or polls. Redisson's live while they are subscribed to their own channels. In ms:
--   PATIENCE least time to the deadline of a living client of Redisson at the head
--   SILENT   a client of Redisson that is not subscribed is removed after so long, when a free lock was there for it
--            for CALLED
--   STALLED  one that is subscribed and leaves a free lock alone for so long is removed, too
--   UNSEEN   without a probe for so long, it is unknown what happened
local PATIENCE, SILENT, CALLED, STALLED, UNSEEN = 300000, 2000, 300, 10000, 3000
-- A call removes so many waiters of ours at most, and so many of Redisson's. MORE: there may be others behind these. The
-- caller, or one that is told, then probes again.
local SOME, FOREIGN, MORE = 8, 8, -1

-- Whether the channel has a subscriber. Pattern subscribers do not count.
local function heard(name)
  return call('PUBSUB', 'NUMSUB', name)[2] > 0
end

-- 1: a waiter that arrived then is searched from the head of the list; -1: from its end, which is nearer.
local function nearer_end(arrived)
  local size = call('LLEN', queue)
  local middle = size > 128 and call('LINDEX', queue, math.floor(size / 2))
  local told = middle and ours(middle) and parse(call('HGET', about, middle))
  return told and told.arrived < arrived and -1 or 1
end

-- parse(), but nil for the dead, in less time.
local function living(told)
  local till = (told or ''):match(' (%d+)$')
  return till and tonumber(till) > millis() and parse(told) or nil
end

-- Remove the first waiters of ours in line as long as they are dead; when the lock is free, also those that cannot be
-- told, which may come back. own lives.
local function sweep_line(own, free)
  local some = call('LRANGE', queue, 0, SOME - 1)
  local told, gone, dead = call('HMGET', about, unpack(some)), {}, {}
  for i = 1, #some do
    local one = living(told[i])
    if not ours(some[i]) or some[i] == own or one and (not free or reachable(some[i], one)) then
      break
    end
    gone[i] = some[i]
    if not one then
      dead[#dead + 1] = some[i]
    end
  end
  call('LTRIM', queue, #gone, -1)
  call('ZREM', timeouts, unpack(gone))
  if dead[1] then
    call('HDEL', about, unpack(dead))
  end
end

-- Look at some records, and go on with the next ones in the next call of this pass, a letter. Those of the dead and of
-- processes without waiters are removed. Returns the living, in line or not, as {owner, told}; and whether the pass has
-- ended.
local function sweep_records(pass)
  local at, from = (call('HGET', about, '~') or ''):match('^' .. pass .. '(%d+) (%d+)$')
  local found = call('HSCAN', about, at or 0, 'COUNT', SOME)
  local flat, some, dead = found[2], {}, {}
  from = tonumber(from) or 0
  local last = math.min(#flat / 2, from + SOME) -- a small hash is returned as a whole
  for i = from + 1, last do
    local field, value = flat[2 * i - 1], flat[2 * i]
    local one = ours(field) and living(value)
    if one then
      some[#some + 1] = { owner = field, told = one }
    elseif field == '!' and call('HEXISTS', lock, value:match('^%S*')) == 0 or #field > 1 then
      dead[#dead + 1] = field
    end
  end
  if dead[1] then
    call('HDEL', about, unpack(dead))
  end
  local over = last == #flat / 2
  call('HSET', about, '~', pass .. (over and found[1] or at or 0) .. ' ' .. (over and 0 or last - #dead))
  return some, over and found[1] == '0'
end

-- The line is empty. Some waiters of ours that Redisson gave up come back, in order of arrival. Returns true when one
-- did, or MORE.
local function revive()
  if call('ZCARD', timeouts) > 0 then
    call('DEL', timeouts)
  end
  local some, over = sweep_records('r')
  call('HDEL', about, '?', over and '~' or '?')
  table.sort(some, function(one, other)
    return one.told.arrived < other.told.arrived
  end)
  local back, scores = {}, {}
  for i = 1, #some do
    if reachable(some[i].owner, some[i].told) then
      back[#back + 1] = some[i].owner
      scores[#scores + 1] = text(math.max(millis() + PLACE, some[i].told.till))
      scores[#scores + 1] = some[i].owner
    end
  end
  if not back[1] then
    return not over and MORE
  end
  call('RPUSH', queue, unpack(back))
  call('ZADD', timeouts, unpack(scores))
  keep_line(false)
  return true
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
-- "?" if there. Dead waiters are removed. nil: nobody waits; nil and MORE: that is not known. own asks, so it lives.
local function head(own, free)
  local swept, passed = false, 0
  while passed <= FOREIGN do
    local two = call('LRANGE', queue, 0, 1)
    local first = two[1]
    if not first then
      local came = revive()
      if came ~= true then
        return nil, came
      end
    elseif ours(first) then
      local known = call('HMGET', about, first, '?')
      local told = parse(known[1])
      if first == own or told and told.lives and (not free or reachable(first, told)) then
        return first, told, two[2], known[2]
      elseif swept then
        return nil, MORE
      end
      sweep_line(own, free)
      swept = true
    else
      local how = stays(first, free)
      if how then
        return first, how
      end
      unqueue(first)
      passed = passed + 1
    end
  end
  return nil, MORE
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

-- There may be waiters behind the dead. One of those that came last is told to probe, so that somebody does.
local function nudge_last()
  local last = call('LRANGE', queue, -8, -1)
  for i = #last, 1, -1 do
    local one = ours(last[i]) and parse(call('HGET', about, last[i]))
    if one and one.lives and reachable(last[i], one) then
      call('PUBLISH', ear(last[i]), 'open ' .. last[i]:sub(38) .. ' 0 ' .. lock)
      return
    end
  end
end

-- award(), and look at what the grant means for a foreign waiter behind first. saw: "?" if there.
local function give(first, told, after, saw)
  local token, tokens, next_ones = award(first, told, after)
  if after and not ours(after) then
    stays(after, false)
  elseif saw then
    see_held()
  end
  return token, tokens, next_ones
end

-- The lock is free: the first living waiter gets it and is told. A client of Redisson's is told to come. own: the
-- caller, if it waits; it gets the reply instead of a message, and what it wants now. Returns the first waiter, nil
-- when nobody waits, MORE when that is not known; and what give() returns.
local function hand_on(own, want)
  local first, told, after, saw = head(own, true)
  if not first then
    if told == MORE and not own then
      nudge_last()
    end
    return told or nil
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
    tell(first, told, token, tokens, next_ones)
    return first, token
  end
  return first
end

-- Leave the line, if waiter is in it.
local function leave(waiter)
  local stood = call('ZREM', timeouts, waiter)
  local told = parse(call('HGET', about, waiter))
  if stood + call('HDEL', about, waiter) == 0 then
    return
  end
  if stood == 1 then
    call('LREM', queue, told and nearer_end(told.arrived) or 1, waiter)
  end
  if call('EXISTS', lock) == 0 then
    hand_on()
  else
    head(nil, false)
  end
end
