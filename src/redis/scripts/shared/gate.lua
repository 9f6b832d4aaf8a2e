-- Close the gate of a name, or open it again. While it is closed, no client of ours gets in, waiters in line are sent
-- away, and holders go on. Each process concerned is told once: "gate <ms> <name>", with 0 when it opens. The last call
-- counts.
-- Returns 1: done; 0: it was open already; -1: another kind of key, nothing changed.
-- KEYS: lock, gate; of a mutex also line, about; of a fair lock also queue, timeouts, about.
-- ARGV: ms it stays closed (0: open it), kind, Redisson's channel
local lock, gate, ms, kind, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
--@include fits.lua

local function ours(owner)
  return owner:sub(15, 15) == '8'
end

local told = {}
local function tell(owner)
  local process = owner:sub(1, 36)
  if ours(owner) and not told[process] then
    told[process] = true
    redis.call('PUBLISH', 'dlock_client:' .. process, 'gate ' .. ms .. ' ' .. lock)
  end
end

local function tell_holders()
  local holders = redis.call('HKEYS', lock)
  for i = 1, #holders do
    tell(holders[i])
  end
end

-- A turn of foreign clients, "*", stays: they know no gates.
local function clear_line(line, about)
  local waiters = redis.call('ZRANGE', line, 0, -1)
  for i = 1, #waiters do
    if waiters[i] ~= '*' then
      redis.call('ZREM', line, waiters[i])
      redis.call('HDEL', about, waiters[i])
      tell(waiters[i])
    end
  end
end

-- Our waiters have added nothing to the deadlines behind them, so they are simply removed. Foreign waiters keep their
-- order. If the lock is free, the first of them is woken: one of ours may have been the first until now.
local function clear_queue(queue, timeouts, about)
  local waiters, gone = redis.call('LRANGE', queue, 0, -1), false
  for i = 1, #waiters do
    if ours(waiters[i]) then
      redis.call('LREM', queue, 1, waiters[i])
      redis.call('ZREM', timeouts, waiters[i])
      tell(waiters[i])
      gone = true
    end
  end
  local notes = redis.call('HKEYS', about)
  for i = 1, #notes do
    if ours(notes[i]) or ours(notes[i]:sub(2)) then
      redis.call('HDEL', about, notes[i])
      tell(notes[i])
    end
  end
  local first = redis.call('LINDEX', queue, 0)
  if gone and first and redis.call('EXISTS', lock) == 0 then
    redis.call('PUBLISH', channel .. ':' .. first, '0')
  end
end

-- Wake the waiters on Redisson's channel. Ours probe again and find the gate; a foreign waiter probes once in vain. A
-- missing latch is open: "1" would close it for a Java waiter that has just been told that it is open.
local function wake()
  if kind ~= 'latch' or redis.call('EXISTS', lock) == 1 then
    redis.call('PUBLISH', channel, '1')
  end
end

if not fits(lock, kind) then
  return -1
elseif ms == '0' then
  if redis.call('DEL', gate) == 0 then
    return 0
  end
else
  redis.call('SET', gate, '1', 'PX', ms)
  if kind == 'mutex' then
    clear_line(KEYS[3], KEYS[4])
  elseif kind == 'fair' then
    clear_queue(KEYS[3], KEYS[4], KEYS[5])
  else
    wake()
  end
end
if kind == 'mutex' or kind == 'fair' then
  tell_holders()
end
return 1
