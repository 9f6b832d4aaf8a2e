-- Release many locks, each as release.lua does. KEYS: see shared/batch.lua. ARGV: listening, rest; then owner and
-- channel of each lock.
-- The usual case comes first, for all at once: nobody else holds one or stands in line.
--@include shared/batch.lua
local function one(KEYS, ARGV, gone, heard)
  --@include shared/let_go.lua
end

local left, gone = {}, {}
for i = 1, count do
  local lock = i * SIZE - SIZE + 1
  left[2 * i - 1], left[2 * i] = KEYS[lock], KEYS[lock + 2]
  gone[i] = ARGV[2] == '0' and redis.pcall('HDEL', KEYS[lock], ARGV[1 + 2 * i]) == 1
end
local free, listening = call('EXISTS', unpack(left)) == 0, tonumber(ARGV[1])
return each(function(i)
  local owner, channel, heard = ARGV[1 + 2 * i], ARGV[2 + 2 * i], nil
  if free and gone[i] then
    heard = call('PUBLISH', channel, '0')
    if heard <= listening then
      return 1
    end
  end
  return one(keys_of(i), { owner, channel, ARGV[1], ARGV[2] }, gone[i], heard)
end)
