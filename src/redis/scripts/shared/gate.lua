-- Close the gate of a name, or open it again. While it is closed, no client of ours gets in, waiters in line are sent
-- away, and holders go on. Each process concerned is told: "gate <ms> <name>", with 0 when it opens. The last call
-- counts.
-- Returns 1: done; 0: it was open already; -1: another kind of key, nothing changed. A text: the gate is closed, and
-- more of those that waited then stand in line. The caller calls again with the text, until all have been sent away.
-- KEYS: lock, gate; of a mutex also line, about; of a fair lock also queue, timeouts, about; of a read-write lock also
-- turns.
-- ARGV: ms it stays closed (0: open it), kind, Redisson's channel, the text or ""
local call = redis.call
local lock, gate, ms, kind, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
--@include fits.lua
-- A call sends away so many.
local SOME = 16
-- Who waited before this time, in microseconds, is sent away. where: what comes next, "line" or "records". from: the
-- place where that goes on. left: 1 when somebody has left. last: the process that was told last.
local before, where, from, left, last = (ARGV[4] or ''):match('^(%d+) (%a+) (%d+) ([01]) (%S*)$')

local function ours(owner)
  return owner:sub(15, 15) == '8'
end

-- The channel of its process, as in give.lua.
local function ear(process)
  return 'dlock_client:' .. lock:sub(1, tonumber(process:sub(16, 18), 16)) .. process
end

local told = {}
local function tell(owner)
  local process = owner:sub(1, 36)
  if ours(owner) and not told[process] and process ~= last then
    told[process], last = true, process
    call('PUBLISH', ear(process), 'gate ' .. ms .. ' ' .. lock)
  end
end

local function tell_holders()
  local holders = call('HKEYS', lock)
  for i = 1, #holders do
    tell(holders[i])
  end
end

-- Returns what the next call has to know, or 1.
local function more(yes)
  return yes and table.concat({ before, where, from, left, last }, ' ') or 1
end

-- They have left the line.
local function tell_all(owners)
  for i = 1, #owners do
    tell(owners[i])
  end
  left = 1
end

-- A turn of foreign clients, "*", has a negative score. It stays: they know no gates.
local function clear_line(line, about)
  local waiters = call('ZRANGEBYSCORE', line, 0, before, 'LIMIT', 0, SOME)
  if #waiters > 0 then
    call('ZREM', line, unpack(waiters))
    call('HDEL', about, unpack(waiters))
    tell_all(waiters)
    local ears = {}
    for i = 1, #waiters do
      ears[2 * i - 1], ears[2 * i] = '+' .. waiters[i], '++' .. waiters[i]
    end
    call('ZREM', line, unpack(ears))
  end
  return more(#waiters == SOME)
end

-- Processes that are called leave the line and ask again: then they find the gate closed. A promise has a negative score.
local function clear_turns(turns)
  local waiters = call('ZRANGEBYSCORE', turns, 0, before, 'LIMIT', 0, SOME)
  if #waiters > 0 then
    call('ZREM', turns, unpack(waiters))
    for i = 1, #waiters do
      call('PUBLISH', ear(waiters[i]), 'free ' .. lock)
    end
  end
  return #waiters == SOME
end

-- Whether one of ours waited when the gate was closed. told: its record
local function waited(owner, told)
  return (ours(owner) or ours(owner:sub(2))) and tonumber((told or ''):match('^(%d+) ') or 0) <= tonumber(before)
end

-- Our waiters have added nothing to the deadlines behind them, so they are simply removed. Foreign waiters keep their
-- order. Returns how many stay.
local function clear_list(queue, timeouts, about, some)
  local told, gone = call('HMGET', about, unpack(some)), {}
  for i = 1, #some do
    if ours(some[i]) and waited(some[i], told[i]) then
      gone[#gone + 1] = some[i]
    end
  end
  if from == 0 and #gone == #some then
    call('LTRIM', queue, #some, -1)
  else
    for i = 1, #gone do
      call('LREM', queue, 1, gone[i])
    end
  end
  if #gone > 0 then
    call('ZREM', timeouts, unpack(gone))
    call('HDEL', about, unpack(gone))
    tell_all(gone)
  end
  return #some - #gone
end

-- Records of waiters that Redisson gave up, and of those that were passed over because the line moved meanwhile. Returns
-- whether all were found.
local function clear_records(queue, timeouts, about)
  local found, gone = call('HSCAN', about, from, 'COUNT', SOME), {}
  local flat = found[2]
  for i = 1, #flat, 2 do
    if #gone < SOME and waited(flat[i], flat[i + 1]) then
      gone[#gone + 1] = flat[i]
    end
  end
  for i = 1, #gone do
    if call('ZREM', timeouts, gone[i]) == 1 then
      call('LREM', queue, 1, gone[i])
    end
  end
  if #gone > 0 then
    call('HDEL', about, unpack(gone))
    tell_all(gone)
  end
  if #gone < SOME then
    from = found[1]
  end
  return #gone < SOME and from == '0'
end

-- If the lock is free in the end, the first foreign waiter is woken: one of ours may have been the first until now.
local function clear_queue(queue, timeouts, about)
  if where == 'line' then
    local some = call('LRANGE', queue, from, from + SOME - 1)
    if #some > 0 then
      from = from + clear_list(queue, timeouts, about, some)
    end
    if #some == SOME then
      return more(true)
    end
    where, from = 'records', 0
  end
  if not clear_records(queue, timeouts, about) then
    return more(true)
  end
  local first = call('LINDEX', queue, 0)
  if left == 1 and first and not ours(first) and call('EXISTS', lock) == 0 then
    call('PUBLISH', channel .. ':' .. first, '0')
  end
  return 1
end

-- Wake the waiters on Redisson's channel. Ours probe again and find the gate; a foreign waiter probes once in vain. A
-- missing latch is open: "1" would close it for a Java waiter that has just been told that it is open.
local function wake()
  if kind ~= 'latch' or call('EXISTS', lock) == 1 then
    call('PUBLISH', channel, '1')
  end
  return 1
end

local function close()
  if not before then
    local time = call('TIME')
    call('SET', gate, '1', 'PX', ms)
    before, where, from, left, last = string.format('%d%06d', time[1], time[2]), 'line', 0, 0, ''
    if kind == 'mutex' or kind == 'fair' then
      tell_holders()
    end
  else
    from, left = tonumber(from), tonumber(left)
  end
  if kind == 'mutex' then
    return clear_line(KEYS[3], KEYS[4])
  elseif kind == 'fair' then
    return clear_queue(KEYS[3], KEYS[4], KEYS[5])
  elseif KEYS[3] and clear_turns(KEYS[3]) then
    return more(true)
  end
  return wake()
end

if not fits(lock, kind) then
  return -1
elseif ms ~= '0' then
  return close()
elseif call('DEL', gate) == 0 then
  return 0
end
if kind == 'mutex' or kind == 'fair' then
  tell_holders()
end
return 1
