-- Shared by the scripts of the fair lock. The script sets channel, Redisson's, before this. All keys are in the lock's
-- slot:
--   lock      hash {owner: "1"}, Redisson's lock
--   fence     string, the highest fencing token reserved so far, Redisson's fenced counter
--   queue     list, owners in order of arrival, Redisson's and ours
--   timeouts  zset, the same owners -> ms since 1970 at which Redisson gives them up
--   about     hash, ours: waiter -> "arrived lease block keep polls ticket foreign until"; it lives until then, in ms
--             since 1970; "!" -> "owner token" of the holder; "?" -> "deaf idle seen owner", of a foreign head; "~" ->
--             where the next sweep begins
--   tombs     hash, tombstones, see buried.lua. They are apart from about, in which sweeps look for the dead
--   gate      string, exists while the gate is closed. In a release during a quarantine this key is missing, which
--             means closed: see quarantine_free.lua
-- All times are in ms, except "arrived", which is in microseconds.
-- In ms: PLACE: least time to the deadline of a waiter of ours, for Redisson; DAY: that a line of ours alone is kept for.
-- SEEN: the number of places that are inspected.
local PLACE, DAY, SEEN = 60000, 86400000, 8
local call = redis.call
local lock, fence, queue, timeouts, about, gate = unpack(KEYS)
local tombs = about .. ':tombstones'

local micros
-- Server time in microseconds, read once.
local function now()
  if not micros then
    local time = call('TIME')
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

local wrong = false
-- The server's reply; nil when the key is of another type, and then wrong is set.
local function ask(...)
  local said = redis.pcall(...)
  if type(said) ~= 'table' or not said.err then
    return said
  end
  if not said.err:find('WRONGTYPE', 1, true) then
    return call(...)
  end
  wrong = true
  return nil
end

-- Make the key last for ms from now, or for three quarters of that at least.
local function keep_for(key, ms)
  if call('PTTL', key) < ms * 3 / 4 then
    call('PEXPIRE', key, text(ms))
  end
end

local function ours(owner)
  return owner:sub(15, 15) == '8'
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

--@include semaphore/sem_token.lua

-- Give the free lock to owner, with the token that was reserved for it.
local function hold(owner, lease, token)
  call('HSET', lock, owner, '1')
  call('PEXPIRE', lock, lease)
  call('HSET', about, '!', owner .. ' ' .. text(token))
  keep_for(about, 2 * lease)
end
