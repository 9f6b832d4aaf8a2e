--@include shared/tokens.lua
-- Reserve the token of a grant. Such a grant is never handed over in memory, so it needs one only.
local function reserve(keep)
  return (tokens(KEYS[2], now(), 1, keep))
end

-- The holder's token, if nothing else was granted since; a new one when the counter is gone.
local function reserved(keep)
  return tonumber(call('GET', KEYS[2])) or reserve(keep)
end
