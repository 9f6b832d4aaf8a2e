-- Query which server this is, and to which quorum it belongs. KEYS: view; ARGV: the client's view, ms that it is kept.
-- Returns {run id, 1 for a shard of a cluster, the view that is kept, this server's time in microseconds}: the client's
-- view, unless another client's is kept.
local call = redis.call
local run = call('INFO', 'server'):match('run_id:(%w+)') or ''
local sharded = call('INFO', 'cluster'):match('cluster_enabled:1') and 1 or 0
local view = call('GET', KEYS[1]) or ARGV[1]
if sharded == 0 and view == ARGV[1] and call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  call('SET', KEYS[1], view, 'PX', ARGV[2])
end
local time = call('TIME')
return { run, sharded, view, time[1] * 1000000 + time[2] }
