-- Release one id and at once try with another: {released, reply of the try}.
-- ARGV: owner, lease, block, mode, listening, beat, keep, seq, then the owner to release, the channel and its rest
--@include tokens.lua
--@include common.lua
--@include try.lua
--@include giveup.lua
local released = give_up(ARGV[9], ARGV[10], tonumber(ARGV[5]), tonumber(ARGV[11]))
return { released, try(ARGV) }
