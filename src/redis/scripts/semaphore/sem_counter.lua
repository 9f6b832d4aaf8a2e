-- What the scripts of the semaphores and of the latch share: the key that counts, decimal text as Redisson writes it.
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

-- What the server answers; nil when the key is of another type.
local function ask(...)
  local said = redis.pcall(...)
  if type(said) ~= 'table' or not said.err then
    return said
  end
  if not said.err:find('WRONGTYPE', 1, true) then
    return call(...)
  end
end

-- The count and whether its key is there; nil when the key is something else.
local function count()
  local value = ask('GET', lock)
  if value == false then
    return 0, false
  end
  if value and #value <= 15 and (value == '0' or value:find('^%-?[1-9]%d*$')) then
    return tonumber(value), true
  end
end

-- Wake who waits for permits, unless there are none to be had: Redisson's handlers raise at a negative number.
local function announce(channel, number, left)
  if left > 0 then
    call('PUBLISH', channel, text(number))
  end
end
