-- Acquire many locks, each as acquire.lua does. KEYS: see shared/batch.lua.
-- ARGV: lease, block, mode, listening, beat, keep; then of each lock owner, ticket and what was seen: end, token, rest.
-- The usual case comes first, for all at once: nobody holds one, nobody stands in line, no gate is closed, no id is
-- buried. Then the reply for a lock is its token, or {1, token, number} when it got fewer than block.
--@include shared/batch.lua
--@include shared/tokens.lua
local function one(KEYS, ARGV)
  --@include acquire.lua
end

local used, fences, met, twice = {}, {}, {}, false
for at = 1, #KEYS, SIZE do
  local lock, fence = KEYS[at], KEYS[at + 1] -- "k" and "{k}" have one counter
  twice = twice or met[lock] or met[fence]
  met[lock], met[fence] = true, true
  fences[#fences + 1] = fence
  used[#used + 1] = lock
  used[#used + 1] = KEYS[at + 2]
  used[#used + 1] = KEYS[at + 3]
  used[#used + 1] = KEYS[at + 4]
end
if twice or call('EXISTS', unpack(used)) > 0 then
  return each(function(i)
    local own, ticket, ends, token, rest = unpack(ARGV, 5 * i + 2, 5 * i + 6)
    return one(keys_of(i), { own, ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ticket, ends, token, rest })
  end)
end

-- A counter that MGET may not read, or that is of another type, is read by tokens().
local counts, time = redis.pcall('MGET', unpack(fences)), call('TIME')
local micros, lease, block, keep = time[1] * 1000000 + time[2], ARGV[1], tonumber(ARGV[2]), ARGV[6]
return each(function(i)
  local lock, token, few = KEYS[i * SIZE - SIZE + 1], tokens(fences[i], micros, block, keep, counts[i])
  call('HSET', lock, ARGV[5 * i + 2], '1')
  call('PEXPIRE', lock, lease)
  return few and { 1, token, few } or token
end)
