-- Renew permits of many semaphores of one slot. A lease is only ever made longer. Returns 1 where all permits of the
-- owner are still out and their lease has not ended; else 0, and nothing has changed.
-- KEYS: lock, leases of each row. ARGV: owner, lease, permits of each row
--@include semaphore/sem_counter.lua
--@include permit_ids.lua
local kept = {}
for row = 1, #KEYS / 2 do
  local leases, lease, permits = KEYS[2 * row], ARGV[3 * row - 1], ARGV[3 * row]
  local ids = ids_of(KEYS[2 * row - 1], ARGV[3 * row - 2], permits)
  local found, lowest = present(leases, ids)
  kept[row] = 0
  if #found == #ids and lowest > millis() then
    reset(leases, ids, end_of(lease), true)
    kept[row] = 1
  end
end
return kept
