-- Before a script that frees a lock and may grant it to the next in line. In a quarantine it frees the lock and grants nothing: the
-- last key, the gate, is missing then, and a gate without a key counts as closed. A full server refuses to keep the marker; the
-- release needs no memory and goes on.
local write = redis.pcall
--@include quarantine.lua
if quiet and quiet[1] == -3 then
  KEYS[#KEYS] = nil
end
