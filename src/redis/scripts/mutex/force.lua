-- Release the lock by force. Returns 1; 0 when it was free; -1 for another kind of lock. ARGV: channel
--@include shared/tokens.lua
--@include give.lua
--@include shared/common.lua
local holders = redis.call('HKEYS', lock)
if #holders == 0 then
  return 0
end
for i = 1, #holders do
  if holders[i] == 'mode' then
    return -1
  end
end
redis.call('DEL', lock)
pass_on(ARGV[1], 0)
return 1
