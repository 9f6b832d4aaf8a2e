--@include shared/tokens.lua
-- The token of a grant that is never handed over in memory.
local function reserve(keep)
  return (tokens(KEYS[2], now(), 1, keep))
end

-- That of who holds, when nobody else was granted anything since; a new one where the counter is gone.
local function reserved(keep)
  return tonumber(call('GET', KEYS[2])) or reserve(keep)
end
