--@include tokens.lua
local function reserve(block, keep)
  return tokens(KEYS[2], now(), block, keep)
end
