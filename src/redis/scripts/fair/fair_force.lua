-- Release the fair lock by force. Returns 1; 0 when it was free; -1 for keys of another kind. ARGV: channel
local channel = ARGV[1]
--@include fair_base.lua
--@include fair_give.lua
--@include fair_line.lua
local holders = ask('HKEYS', lock)
ask('LLEN', queue)
ask('ZCARD', timeouts)
ask('HLEN', about)
ask('STRLEN', fence)
if wrong then
  return -1
end
if #holders == 0 then
  return 0
end
for i = 1, #holders do
  if holders[i] == 'mode' then
    return -1
  end
end
call('DEL', lock)
hand_on()
return 1
