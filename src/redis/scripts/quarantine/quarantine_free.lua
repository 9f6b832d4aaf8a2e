-- Comes before a script that frees a lock and may grant it to the next in line. During a quarantine the script frees
-- the lock and grants nothing: the last key, the gate, is removed from KEYS, and a gate without a key counts as closed.
-- A full server refuses to write the marker. The release needs no memory and goes on.
local write = redis.pcall
--@include quarantine.lua
if quiet and quiet[1] == -3 then
  KEYS[#KEYS] = nil
end
