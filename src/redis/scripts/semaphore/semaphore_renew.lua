-- Holders of many semaphores of one slot report that they live. Returns 1 where the server knows the holder, else 0. A
-- holder that gets 0 holds nothing any more: its permits were given back for it, or the server has lost its memory. When
-- it has lost holders only, taken tells.
-- KEYS: lock, holders of each row. ARGV: owner, lease, permits of each row
--@include sem_counter.lua
--@include sem_holders.lua
local function taken_by(holders, owner)
  local found = redis.pcall('ZSCORE', (holders:gsub('^dlock_holders', 'dlock_taken')), owner)
  return type(found) == 'string'
end

local kept = {}
for row = 1, #KEYS / 2 do
  local holders, owner, lease, permits = KEYS[2 * row], ARGV[3 * row - 2], ARGV[3 * row - 1], ARGV[3 * row]
  kept[row] = 0
  if ask('ZSCORE', holders, holder(owner, permits)) or taken_by(holders, owner) then
    call('PEXPIRE', holders, YEAR) -- first: a full server would refuse the next one as the first write
    lives(holders, owner, permits, lease)
    kept[row] = 1
  end
end
return kept
