-- Who holds the lock, for how long still, the last token reserved, server time, and how many processes stand in line.
-- {holder or "", PTTL, token, microseconds, waiters}; changes nothing.
local holders = redis.call('HKEYS', KEYS[1])
local time = redis.call('TIME')
local waiters = redis.call('ZCOUNT', KEYS[3], 0, '+inf')
local token = redis.call('GET', KEYS[2])
return { holders[1] or '', redis.call('PTTL', KEYS[1]), tonumber(token or '0') or 0, time[1] * 1000000 + time[2], waiters }
