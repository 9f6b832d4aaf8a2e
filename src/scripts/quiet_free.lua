-- Before a script that frees a lock and may grant it to who is next: not meanwhile, as if its gate, the last key, were closed.
local write = redis.pcall
--@include quiet.lua
if quiet and quiet[1] == -3 then
  KEYS[#KEYS] = marker
end
