-- Acquire many locks, each as acquire.lua does. ARGV: lease, block, mode, listening, beat, keep; then owner, seq and what was seen, three words, of each lock.
-- The usual case first, for all at once: nobody holds one, nobody stands in line, no gate is closed, no id is buried. Then the reply is the tokens, or
-- {1, token, number} of those that got fewer than block.
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
    local own, seq, ends, token, rest = unpack(ARGV, 5 * i + 2, 5 * i + 6)
    return one(keys_of(i), { own, ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], seq, ends, token, rest })
  end)
end

-- What MGET may not read, or is of another type, tokens() asks for itself.
local counts, time = redis.pcall('MGET', unpack(fences)), call('TIME')
local micros, lease, block, keep = time[1] * 1000000 + time[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6])
return each(function(i)
  local lock, token, few = KEYS[i * SIZE - SIZE + 1], tokens(fences[i], micros, block, keep, counts[i])
  call('HSET', lock, ARGV[5 * i + 2], '1')
  call('PEXPIRE', lock, lease)
  return few and { 1, token, few } or token
end)
