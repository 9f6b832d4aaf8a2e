-- Whether the server may have lost its memory, by a restart, a flush or a failover. It stands before scripts that grant, when
-- quarantine_ms is set; KEYS and ARGV have its words behind the script's own, and are as the script wants them afterwards.
--   marker   hash: epoch -> run id and replication id of the server that remembers everything; longest -> ms, the longest
--            lease any client may ask for; until -> ms since 1970, nobody is granted anything before
-- A server restarts with a new run id and is promoted with a new replication id (a primary that was without replicas for
-- repl-backlog-ttl takes a new one too: one quarantine too many). A flush takes the marker along. Whoever finds it missing or
-- of another epoch begins the quarantine: what was granted before ends within it, for nobody had a longer lease.
-- A full server refuses to keep that, and a replica: a try hears so. A release goes on without. write: how it is kept.
-- KEYS: marker. ARGV: longest, and for how long the quarantine lasts
-- A clock that is set back makes quarantine and leases longer by as much, see mend.lua. None may be longer than said: both are cut.
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
