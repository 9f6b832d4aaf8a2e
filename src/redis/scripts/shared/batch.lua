-- Shared by the scripts of batches. A batch does for many locks what another script does for one.
-- KEYS: those of the other script, lock after lock. The reply has one element for each lock: the reply of the other
-- script, or nil where that was an error.
local SIZE = 5
local call, count = redis.call, #KEYS / SIZE

local function keys_of(i)
  return { unpack(KEYS, i * SIZE - SIZE + 1, i * SIZE) }
end

-- Call say for each lock and collect its results. After an error it goes on with the next lock.
local function each(say)
  local said, i = {}, 0
  local function go_on()
    while i < count do
      i = i + 1
      said[i] = false
      said[i] = say(i)
    end
  end
  while i < count do
    pcall(go_on)
  end
  return said
end
