-- Renew read and write holds of one slot. A lease is only ever made longer. PEXPIRE works at maxmemory, too. A hold that is
-- gone from the hash is not restored: Redisson released it by force, or a writer of Redisson's may have held since.
-- KEYS: lock, hold and holds of each; ARGV: owner and lease of each. Returns 1 where the hold lives, else 0.
--@include shared/held.lua
--@include shared/extend.lua
--@include rw_note.lua
local kept, time = {}, redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, #KEYS / 3 do
  local lock, hold, owner, lease = KEYS[3 * i - 2], KEYS[3 * i - 1], ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local writes = owner:sub(-6) == ':write'
  kept[i] = 0
  if held(lock, owner) and (writes or redis.call('EXISTS', hold) == 1) then
    if not writes then
      extend(hold, lease)
    end
    extend(lock, lease)
    note(KEYS[3 * i], owner, at, lease)
    kept[i] = 1
  end
end
return kept
