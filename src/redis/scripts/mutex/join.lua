-- Who this server is, and to what quorum it belongs. KEYS: view; ARGV: the client's view, ms for which it stands.
-- {run id, 1 for a shard of a cluster, the view that stands}: the client's, unless another client's stands.
local call = redis.call
local run = call('INFO', 'server'):match('run_id:(%w+)') or ''
local sharded = call('INFO', 'cluster'):match('cluster_enabled:1') and 1 or 0
local view = call('GET', KEYS[1]) or ARGV[1]
if sharded == 0 and view == ARGV[1] and call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  call('SET', KEYS[1], view, 'PX', ARGV[2])
end
return { run, sharded, view }
