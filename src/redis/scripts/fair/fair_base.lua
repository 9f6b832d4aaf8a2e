-- What the scripts of the fair lock share. The script names Redisson's channel before. All keys are in the lock's slot:
--   lock      hash {owner: "1"}, Redisson's lock
--   fence     string, the highest fencing token reserved so far, Redisson's fenced counter
--   queue     list, owners in order of arrival, Redisson's and ours
--   timeouts  zset, the same owners -> ms since 1970 at which Redisson gives them up
--   about     hash, ours: waiter -> "arrived lease block keep polls seq foreign until", the last in ms: it lives until then;
--             "!" -> "owner token" of the holder; "?" -> "deaf idle seen owner", of a foreign head; "~" -> next sweep; tombstones, see buried.lua
--   gate      string, there while the lock is closed. Missing in a release during a quarantine, see quarantine_free.lua: closed
-- All times in ms but "arrived", in microseconds.
local call = redis.call
local lock, fence, queue, timeouts, about, gate = unpack(KEYS)

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
-- What the server answers; nil, and wrong is set, when the key is of another type.
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

-- A key is to last so many ms from now, or nearly.
local function keep_for(key, ms)
  if call('PTTL', key) < ms * 3 / 4 then
    call('PEXPIRE', key, text(ms))
  end
end

--@include semaphore/sem_token.lua

-- The free lock is owner's, with the token that was reserved for it.
local function hold(owner, lease, token)
  call('HSET', lock, owner, '1')
  call('PEXPIRE', lock, lease)
  call('HSET', about, '!', owner .. ' ' .. text(token))
  keep_for(about, 2 * lease)
end
