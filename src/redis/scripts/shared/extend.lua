-- Make a key live for lease ms, or longer if it does already. This always writes, because replicas confirm only writes.
-- An answer other than 1 means that the key lives longer, that it has no end, or that the server is older than 7.0 and
-- does not know GT. A key that lives longer gets one more millisecond: every renewal changes the end, so an unchanged
-- end proves that there was no renewal (see mend.lua).
local function extend(key, lease)
  if redis.pcall('PEXPIRE', key, lease, 'GT') ~= 1 then
    redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key) + 1, tonumber(lease)))
  end
end
