-- For the scripts of crowds, which do for many locks what another script does for one. KEYS: those of the other script, lock after
-- lock. The reply has one element for each: what the other script would have said, or nil where that was an error.
local SIZE = 5
local call, count = redis.call, #KEYS / SIZE

local function keys_of(i)
  return { unpack(KEYS, i * SIZE - SIZE + 1, i * SIZE) }
end

-- What a function says for each. After the error of one it goes on with the next.
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
