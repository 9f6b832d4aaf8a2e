-- Make a key live for lease ms, never shorter than it does. It always writes: replicas confirm nothing else. Any answer but 1
-- is looked into: it lives longer, it has no end, or the server is older than 7.0 and knows no GT. What lives longer gets a
-- millisecond: each renewal changes the end, so an end that is as it was says that there was none (see mend.lua).
local function extend(key, lease)
  if redis.pcall('PEXPIRE', key, lease, 'GT') ~= 1 then
    redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key) + 1, tonumber(lease)))
  end
end
