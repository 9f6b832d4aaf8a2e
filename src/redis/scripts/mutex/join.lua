-- Query which server this is, and to which quorum it belongs. KEYS: view; ARGV: the client's view, ms that it is kept. If the
-- quorum has a name, the view does not name the servers; then also: how many others there are, and those that the client
-- knows, each as "run id, seconds since its start, run id before that, or -".
-- Returns {run id, 1 for a shard of a cluster, the view that is kept, this server's time in microseconds, seconds since its
-- start}: the client's view, unless another client's is kept, or the same with other servers.
local call = redis.call
local info = call('INFO', 'server')
local run, up = info:match('run_id:(%w+)') or '', tonumber(info:match('uptime_in_seconds:(%d+)') or 0)
local sharded = call('INFO', 'cluster'):match('cluster_enabled:1') and 1 or 0
local kept, time = call('GET', KEYS[1]) or ARGV[1], call('TIME')
local view, now = kept:match('^[^\n]*'), time[1] * 1000 + math.floor(time[2] / 1000)
local others, seen, began = tonumber(ARGV[3]), {}, {}

-- Servers that were seen at one time, and are more than there can be: not all of them are members of one quorum.
local function too_many()
  for id, at in pairs(seen) do
    local alive = 0
    for other, last in pairs(seen) do
      alive = alive + ((began[other] and began[other] <= at or not began[other] and last >= at) and 1 or 0)
    end
    for other, start in pairs(began) do
      alive = alive + ((not seen[other] and start <= at) and 1 or 0)
    end
    if alive > others then return id end
  end
end

if others and view == ARGV[1] then
  for id, at in kept:gmatch('\n(%w+) (%d+)') do
    if now - at <= tonumber(ARGV[2]) then seen[id] = tonumber(at) end
  end
  for id, age, before in ARGV[4]:gmatch('(%w+) (%d+) (%S+)') do
    began[id], seen[before] = now - 1000 * age - 1000, nil
  end
  local other = too_many()
  if other then view = view .. ' of other servers, one with run id ' .. other end
  kept = ARGV[1]
  for id in pairs(began) do seen[id] = now end
  for id, at in pairs(seen) do kept = kept .. string.format('\n%s %.0f', id, at) end
end
if sharded == 0 and view == ARGV[1] and (others or call('PTTL', KEYS[1]) < tonumber(ARGV[2])) then
  call('SET', KEYS[1], kept, 'PX', math.max(tonumber(ARGV[2]), call('PTTL', KEYS[1])))
end
return { run, sharded, view, time[1] * 1000000 + time[2], up }
