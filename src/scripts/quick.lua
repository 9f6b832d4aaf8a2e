-- The usual case first, before the functions of common.lua are made: nobody holds the lock, nobody stands in
-- line and no gate is closed.
local call = redis.call
if call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  local time, before = call('TIME'), call('GET', KEYS[2])
  local token = time[1] * 1000000 + time[2]
  if before then
    token = math.max(token, (tonumber(before) or 0) + 1)
  end
  local last = string.format('%.0f', token + ARGV[3] - 1)
  if before and call('PTTL', KEYS[2]) == -1 then
    call('SET', KEYS[2], last)
  else
    call('SET', KEYS[2], last, 'PX', ARGV[7])
  end
  call('HSET', KEYS[1], ARGV[1], '1')
  call('PEXPIRE', KEYS[1], ARGV[2])
  return { 1, token }
end
