-- pass.lua behind a look at the memory of the server, see quiet.lua: what is released is released.
--@include quiet_free.lua
--@include tokens.lua
--@include common.lua
--@include bury.lua
--@include try.lua
--@include giveup.lua
if ARGV[12] == '1' then
  bury(ARGV[9])
end
local released = give_up(ARGV[9], ARGV[10], tonumber(ARGV[5]), tonumber(ARGV[11]))
return { released, quiet or try(ARGV) }
