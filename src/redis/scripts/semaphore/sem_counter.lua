-- Shared by the scripts of the semaphores and of the latch: the key that counts, in decimal text as Redisson writes it.
local call, lock = redis.call, KEYS[1]

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

-- The server's reply; nil when the key is of another type.
local function ask(...)
  local said = redis.pcall(...)
  if type(said) ~= 'table' or not said.err then
    return said
  end
  if not said.err:find('WRONGTYPE', 1, true) then
    return call(...)
  end
end

-- The count, and whether its key exists; nil when the key is something else.
local function count()
  local value = ask('GET', lock)
  if value == false then
    return 0, false
  end
  if value and #value <= 15 and (value == '0' or value:find('^%-?[1-9]%d*$')) then
    return tonumber(value), true
  end
end

-- Wake the waiters, unless no permits are left: Redisson's handlers raise an error at a negative number. Returns how many
-- subscribers were told.
local function announce(channel, number, left)
  return left > 0 and call('PUBLISH', channel, text(number)) or 0
end
