-- Renew read holds of one slot. A lease is only ever made longer. PEXPIRE works at maxmemory, too. Writers are renewed
-- by renew.lua.
-- KEYS: lock and hold of each; ARGV: owner and lease of each. Returns 1 where the hold lives, else 0.
--@include shared/held.lua
--@include shared/extend.lua
local kept = {}
for i = 1, #KEYS / 2 do
  local lock, hold, owner, lease = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i - 1], ARGV[2 * i]
  kept[i] = 0
  if held(lock, owner) and redis.call('EXISTS', hold) == 1 then
    extend(hold, lease)
    extend(lock, lease)
    kept[i] = 1
  end
end
return kept
