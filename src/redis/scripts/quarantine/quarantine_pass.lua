-- pass.lua behind a look at the memory of the server, see quarantine.lua: what is released is released.
--@include quarantine_free.lua
--@include shared/tokens.lua
--@include shared/common.lua
--@include shared/bury.lua
--@include mutex/try.lua
--@include mutex/giveup.lua
if ARGV[12] == '1' then
  bury(ARGV[9])
end
local released = give_up(ARGV[9], ARGV[10], tonumber(ARGV[5]), tonumber(ARGV[11]))
return { released, quiet or try(ARGV) }
