-- Renew many locks of one slot. KEYS: locks; ARGV: owner and lease of each. 1 where the owner still holds, else 0.
-- A lease is only ever made longer. PEXPIRE works at maxmemory too. The mode of a read-write lock is nobody's hold.
--@include held.lua
--@include extend.lua
local kept = {}
for i = 1, #KEYS do
  local owner, lease = ARGV[2 * i - 1], ARGV[2 * i]
  kept[i] = 0
  if held(KEYS[i], owner) and owner ~= 'mode' then
    extend(KEYS[i], lease)
    kept[i] = 1
  end
end
return kept
