-- The write of a sale, fenced: refuse a token lower than the highest seen, and remember the highest with the stock.
-- KEYS: items {left, fence, refused, guarded}, sold. ARGV: token, left after it, buyer. Returns 1 sold, 0 refused.
-- The holder has read what is left before and says what is left now: without the lock, or the fence, this oversells.
local fence, guarded = unpack(redis.call('HMGET', KEYS[1], 'fence', 'guarded'))
if guarded == '1' and tonumber(ARGV[1]) < tonumber(fence) then
  redis.call('HINCRBY', KEYS[1], 'refused', 1)
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'left', ARGV[2])
redis.call('RPUSH', KEYS[2], ARGV[3])
return 1
