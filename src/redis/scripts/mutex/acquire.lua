-- Acquire, or stand in line. The same owner id sent twice gets the same grant. KEYS: lock, fence, line, about, gate.
-- ARGV: owner, lease, block, mode, listening, beat, keep, ticket; and what was seen of the hold: end, token, rest, see
-- mend.lua
--@include shared/tokens.lua
--@include quick.lua
--@include give.lua
--@include shared/common.lua
--@include shared/buried.lua
--@include try.lua
return try(ARGV, { ARGV[9], ARGV[10], ARGV[11] })
