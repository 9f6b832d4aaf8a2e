-- Release, or leave the line. ARGV: owner, channel, listening
--@include common.lua
--@include giveup.lua
return give_up(ARGV[1], ARGV[2], tonumber(ARGV[3]))
