--@include shared/tokens.lua
-- Reserve up to block tokens for a grant: one for its holder, the others for turns in the holder's process. Without
-- block, one. Returns the first, and how many they are.
local function reserve(keep, block)
  local token, few = tokens(KEYS[2], now(), block or 1, keep)
  return token, few or tonumber(block) or 1
end

-- A token for a request that was granted before: the last one that was reserved, or a new one when the counter is gone.
local function reserved(keep)
  return tonumber(call('GET', KEYS[2])) or (reserve(keep))
end
