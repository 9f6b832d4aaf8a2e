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

-- Join at the end of the line. least: of its deadline. left: ms of the holder's lease. Returns the place, true for further
-- back than SEEN; and whether records should be swept.
local function line_up(args, least, left)
  local owner, till = args[1], math.max(least, millis() + math.max(left, PLACE, tonumber(args[6])))
  if call('ZADD', timeouts, text(till), owner) == 0 then
    call('LREM', queue, 1, owner) -- its record has ended, and so its place
  end
  local size = call('RPUSH', queue, owner)
  return size <= SEEN and size or true, call('HLEN', about) > 2 * size + 16
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
  local behind_ours = (call('HGET', about, last) or ''):find('^%d+ %d+ %d+ %d+ %d %S+ 0 ')
  return present == 4 and behind_ours and tonumber(ask('ZSCORE', timeouts, last)) or nil
end

-- Returns what the script returns; nil: it is another case, and nothing has changed. And whether records should be swept.
local function join(args, holders, known, present)
  local deadline = args[4] ~= '0' and usual(args[1], holders, known, present)
  if not deadline then
    return nil
  end
  record(args, now(), '0')
  local left = call('PTTL', lock)
  local place, crowded = line_up(args, deadline + 1, left)
  keep_line(false)
  return { 0, place == true and -1 or left, 0 }, crowded
end
