-- For the scripts of crowds, which do for many locks what another script does for one. KEYS: those of the other script, lock after
-- lock. The reply has one element for each: what the other script would have said, or nil where that was an error.
local SIZE = 5
local call, count = redis.call, #KEYS / SIZE

local function keys_of(i)
  return { unpack(KEYS, i * SIZE - SIZE + 1, i * SIZE) }
end

-- What a function says for each. pcall keeps the error of one lock from the others.
local function each(say)
  local said = {}
  for i = 1, count do
    local good, reply = pcall(say, i)
    said[i] = good and reply or false
  end
  return said
end
