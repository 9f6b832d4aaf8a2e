-- The line of waiting processes, for the kinds whose waiters are told to come and then ask again. Only the first in line
-- is told; of a semaphore, as many as permits are left. The next turn is promised to it, and for GRACE ms no other client
-- of ours gets the lock. Foreign clients know no line. The script that includes this has now() and text(), and in turns
-- the key of the line, a zset. It makes the functions of the line only when it needs them: most calls do not.
--   uuid of a process        -> when it came, in microseconds
--   PROMISE and such a uuid  -> minus the time in ms until which the next turn is promised to it. So it comes first.
local made
local function line()
  if made then
    return made
  end
  local GRACE, DEAF, PROMISE = 25, 8, '*'

  local function millis()
    return math.floor(now() / 1000)
  end

  -- Its channel, as in give.lua.
  local function ear(process)
    return 'dlock_client:' .. lock:sub(1, tonumber(process:sub(16, 18), 16)) .. process
  end

  -- Whether the process can be told. Pattern subscribers do not count.
  local function hears(process)
    return call('PUBSUB', 'NUMSUB', ear(process))[2] > 0
  end

  local function tell(process)
    call('PUBLISH', ear(process), 'free ' .. lock)
  end

  -- A full server refuses the promise. Then others may come before.
  local function promise(process)
    redis.pcall('ZADD', turns, text(-(millis() + GRACE)), PROMISE .. process)
    tell(process)
  end

  -- Of a member of the line: the process, and the ms for which the next turn is promised to it: 0 when it has not come in
  -- time, nil for a place in line.
  local function read(member)
    if member:sub(1, 1) ~= PROMISE then
      return member
    end
    local left = -tonumber(call('ZSCORE', turns, member)) - millis()
    return member:sub(2), left > 0 and left <= GRACE and left or 0 -- more is a clock that was set back
  end

  local function first_in_line()
    local first = call('ZRANGE', turns, 0, 0)[1]
    return first and first:sub(1, 1) == PROMISE and call('ZRANGEBYSCORE', turns, 0, '+inf', 'LIMIT', 0, 1)[1] or first
  end

  -- The lock is free, or so many permits are left. Whether the process may have it. If not, the ms until it should ask
  -- again; -1: when it is told. Others that come before it are told to come.
  local function may_have(process, left)
    local some, late, soon = call('ZRANGE', turns, 0, DEAF), {}, nil
    for i = 1, #some do
      local one, ms = read(some[i])
      if ms and ms > 0 then
        if one == process then
          return true
        end
        left, soon, late[one] = left - 1, ms, true
      elseif ms then
        late[one] = true
      elseif left < 1 then
        return false, one == process and soon or -1
      elseif one == process then
        return true
      elseif not late[one] and hears(one) then
        left = left - 1
        promise(one)
      end
    end
    return left >= 1, soon or -1
  end

  -- It has got the lock, or waits no longer. So do those that have not come in time.
  local function leave_line(process)
    for _ = 1, DEAF do
      local first = call('ZRANGE', turns, 0, 0)[1]
      local one, ms = nil, nil
      if first then
        one, ms = read(first)
      end
      if ms ~= 0 then
        break
      end
      call('ZREM', turns, one, first)
    end
    return call('ZREM', turns, process, PROMISE .. process) > 0
  end

  -- It waits, and was not served although it came. beat: ms that it may be silent. Returns whether it is the first.
  local function stand(process, beat)
    call('ZREM', turns, PROMISE .. process)
    if not call('ZSCORE', turns, process) then
      redis.pcall('ZADD', turns, text(now()), process) -- a full server refuses it
    end
    if call('PTTL', turns) < beat * 3 / 2 then
      call('PEXPIRE', turns, text(2 * beat))
    end
    return first_in_line() == process
  end

  -- The lock is free, or so many permits are left: the first that can be told are. Those that cannot, and those that have
  -- not come in time, leave.
  local function call_next(left)
    local some, gone = call('ZRANGE', turns, 0, DEAF), {}
    for i = 1, #some do
      local one, ms = read(some[i])
      if left < 1 then
        break
      elseif ms == 0 or not gone[one] and not hears(one) then
        gone[one] = true
        call('ZREM', turns, one, PROMISE .. one)
      elseif not gone[one] then
        gone[one] = true
        left = left - 1
        promise(one)
      end
    end
  end

  -- The first one shall ask: something has changed for it.
  local function tell_first()
    local first = first_in_line()
    if first then
      tell(first)
    end
  end

  made = { may_have = may_have, leave = leave_line, stand = stand, call_next = call_next, tell_first = tell_first }
  return made
end

-- Do this with the line. Nothing when nobody stands there.
local function in_line(what, ...)
  if call('EXISTS', turns) == 1 then
    return line()[what](...)
  end
end
