-- Restore holds of a quorum that this server lacks, with their tokens, where nobody has the lock. This follows a
-- renewal that a quorum has answered; it never replaces one.
-- KEYS: lock, fence of each; ARGV: owner, lease, last token of each.
-- Returns 1 where the owner holds now, else 0. A hold whose counter cannot be set is not restored; the others are.
--@include shared/held.lua
local call, kept = redis.call, {}

local function floor(fence, last, lease)
  local before = call('GET', fence)
  if before and tonumber(before) and tonumber(before) >= tonumber(last) then
    return
  end
  if before and call('PTTL', fence) == -1 then
    call('SET', fence, last)
  else
    call('SET', fence, last, 'PX', math.max(call('PTTL', fence), 10 * lease))
  end
end

for i = 1, #KEYS / 2 do
  local lock, owner, lease = KEYS[2 * i - 1], ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1])
  kept[i] = 0
  if call('EXISTS', lock) == 0 then
    if pcall(floor, KEYS[2 * i], ARGV[3 * i], lease) then
      call('HSET', lock, owner, '1')
      call('PEXPIRE', lock, lease)
      kept[i] = 1
    end
  elseif held(lock, owner) then
    kept[i] = 1
  end
end
return kept
