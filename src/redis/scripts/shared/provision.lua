-- The operator confirms that the server remembers every lock: it may grant at once. Returns 1. See quarantine.lua.
-- KEYS: marker. ARGV: the longest lease that any client may ask for, and how long a quarantine lasts; both in ms
local run = redis.call('INFO', 'server'):match('run_id:(%x+)')
local id = redis.call('INFO', 'replication'):match('master_replid:(%x+)')
if not run or not id then
  return redis.error_reply('ERR quarantine_ms needs a server that tells its run id and its replication id')
end
redis.call('HSET', KEYS[1], 'epoch', run .. ':' .. id, 'longest', ARGV[1], 'until', '0')
return 1
