-- Most callers join a line of ours behind a holder of ours. This does what look() and stand() do then, with fewer
-- commands.

-- Write down that the caller waits.
local function record(args, arrived, foreign)
  local beat = tonumber(args[6])
  call(
    'HSET', about, args[1],
    table.concat({
      text(arrived), args[2], args[3], args[7], args[4] == '2' and '1' or '0', args[8], foreign, text(millis() + beat),
    }, ' ')
  )
  keep_for(about, 2 * beat)
end

-- Another holder of ours has the lock, own does not stand in line, and only waiters of ours do. present: how many of the
-- keys are there: lock and about, or the four of a line. So there is no gate, and there are no tombstones.
-- Returns the deadline of the last in line, 0 when nobody waits; nil: it is another case.
local function usual(own, holders, known, present)
  if wrong or #holders ~= 1 or not ours(holders[1]) or holders[1] == own or known[1] or not known[2] then
    return nil
  end
  local last, fenced = ask('LINDEX', queue, '-1'), ask('STRLEN', fence)
  if not fenced or not last then
    return fenced and not wrong and present == 2 and 0 or nil
  end
  local behind_ours = (call('HGET', about, last) or ''):find('^%d+ %d+ %d+ %d+ %d %d+ 0 ')
  return present == 4 and behind_ours and tonumber(ask('ZSCORE', timeouts, last)) or nil
end

-- Returns what the script returns; nil: it is another case, and nothing has changed. And whether records should be swept.
local function join(args, holders, known, present)
  local own, till = args[1], args[4] ~= '0' and usual(args[1], holders, known, present)
  if not till then
    return nil
  end
  local left = call('PTTL', lock)
  if call('ZADD', timeouts, text(math.max(till + 1, millis() + math.max(left, PLACE))), own) == 0 then
    call('LREM', queue, 1, own) -- its record has ended, and so its place
  end
  record(args, now(), '0')
  local size = call('RPUSH', queue, own)
  if call('PTTL', queue) < DAY / 2 then
    call('PEXPIRE', queue, DAY)
    call('PEXPIRE', timeouts, DAY)
  end
  return { 0, size <= SEEN and left or -1, 0 }, call('HLEN', about) > 2 * size + 16
end
