-- Write back the tokens that servers of a quorum agreed on. KEYS: lock, fence.
-- ARGV: owner, last token reserved here with its vote, last token to stand, keep
-- A counter that is ahead of this server's clock lives for so much longer: see tokens.lua.
-- Returns 1 when it stands; 0 when owner does not have the lock any more, or somebody has reserved tokens since that
-- vote.
--@include shared/held.lua
local call, fence, last = redis.call, KEYS[2], ARGV[3]
local before = held(KEYS[1], ARGV[1]) and call('GET', fence)
if before == last then
  return 1
elseif not before or before ~= ARGV[2] or tonumber(before) > tonumber(last) then
  return 0
elseif call('PTTL', fence) == -1 then
  call('SET', fence, last)
else
  local time = call('TIME')
  local ahead = math.ceil((last - time[1] * 1000000 - time[2]) / 1000)
  call('SET', fence, last, 'PX', ARGV[4] + math.max(0, ahead))
end
return 1
