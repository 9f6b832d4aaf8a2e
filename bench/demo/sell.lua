-- The stock, fenced: refuse a token lower than the highest seen, and remember the highest with the stock. What is written
-- follows from what was read, so reading shows the token as well: from then on nobody with a lower one changes what was read.
-- KEYS: items {left, fence, refused, guarded}, sold. ARGV: token; for a write also: left after it, buyer.
-- Returns what is left, -1 refused. The holder says what is left now: without the lock, or the fence, this oversells.
local left, fence, guarded = unpack(redis.call('HMGET', KEYS[1], 'left', 'fence', 'guarded'))
if guarded == '1' and tonumber(ARGV[1]) < tonumber(fence) then
  redis.call('HINCRBY', KEYS[1], 'refused', 1)
  return -1
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'left', ARGV[2] or left)
if ARGV[2] then redis.call('RPUSH', KEYS[2], ARGV[3]) end
return tonumber(ARGV[2] or left)
