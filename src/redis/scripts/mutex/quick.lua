-- The usual case comes first, before the functions of common.lua are made: nobody holds the lock, nobody stands in
-- line, no gate is closed and no id is buried.
local call = redis.call
if call('EXISTS', KEYS[1], KEYS[3], KEYS[4], KEYS[5]) == 0 then
  local time = call('TIME')
  local token, few = tokens(KEYS[2], time[1] * 1000000 + time[2], ARGV[3], ARGV[7])
  call('HSET', KEYS[1], ARGV[1], '1')
  call('PEXPIRE', KEYS[1], ARGV[2])
  return { 1, token, few }
end
