-- pass.lua after the check of the server's memory, see quarantine.lua. The release is done in any case.
--@include quarantine_free.lua
--@include shared/tokens.lua
--@include mutex/give.lua
--@include shared/common.lua
--@include shared/bury.lua
--@include mutex/try.lua
--@include mutex/giveup.lua
if ARGV[12] == '1' then
  bury(ARGV[9])
end
local released = give_up(ARGV[9], ARGV[10], tonumber(ARGV[5]), tonumber(ARGV[11]))
return { released, quiet or try(ARGV) }
