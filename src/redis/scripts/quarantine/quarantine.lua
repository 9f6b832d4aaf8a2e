-- Check whether the server may have lost its memory: by a restart, a flush or a failover. With the option quarantine_ms
-- this comes before the scripts that grant. Its KEYS and ARGV follow the script's own; they are removed here.
--   marker   hash: epoch -> run id and replication id of the server that remembers everything; longest -> ms, the
--            longest lease that any client may ask for; until -> ms since 1970, nothing is granted before
-- A restarted server has a new run id. A promoted server has a new replication id. (A primary that was without replicas
-- for repl-backlog-ttl takes a new one, too: that is one quarantine too many.) A flush deletes the marker. The first
-- script that finds the marker missing or of another epoch begins the quarantine. Every earlier grant ends within it,
-- because no lease is longer.
-- A full server refuses to write the marker, and so does a replica. A try then fails with that error; a release goes
-- on. write: the function that writes it, redis.call or redis.pcall.
-- KEYS: marker. ARGV: longest, and how long the quarantine lasts; both in ms
-- A clock that is set back makes quarantine and leases longer by as much, see mend.lua. Neither may be longer than its
-- limit: both are cut.
local marker, quiet, most = table.remove(KEYS), nil, nil
do
  local lasts, longest = tonumber(table.remove(ARGV)), tonumber(table.remove(ARGV))
  local run = redis.call('INFO', 'server'):match('run_id:(%x+)')
  local id = redis.call('INFO', 'replication'):match('master_replid:(%x+)')
  if not run or not id then
    return redis.error_reply('ERR quarantine_ms needs a server that tells its run id and its replication id')
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local told = redis.call('HMGET', marker, 'epoch', 'longest', 'until')
  local known, till = tonumber(told[2] or ''), tonumber(told[3] or '')
  if told[1] ~= run .. ':' .. id or not known or not till then
    lasts = math.ceil(lasts * math.max(1, (known or 0) / longest))
    known, till = known or longest, now + lasts
    write('HSET', marker, 'epoch', run .. ':' .. id, 'longest', known, 'until', string.format('%.0f', till))
  end
  local drifts = math.ceil(lasts * 5 / 4) -- by the clients' drift_ppm quarantines differ, by less than that
  if known == longest and till > now + drifts then
    till = now + drifts
    write('HSET', marker, 'until', string.format('%.0f', till))
  end
  most = lasts
  if known ~= longest then
    quiet = { -4, known }
  elseif till > now then
    quiet = { -3, math.min(till - now, lasts) }
  end
end
