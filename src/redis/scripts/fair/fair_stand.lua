-- How a waiter joins the line of the fair lock and keeps its place.

-- Where owner stands in line: a place among the first, true for further back, nil for nowhere.
local function place_of(owner, first, score)
  for i = 1, #first do
    if first[i] == owner then
      return i
    end
  end
  return score and #first == SEEN and call('LLEN', queue) >= call('ZCARD', timeouts) or nil
end

local function some_foreign(first)
  for i = 1, #first do
    if not ours(first[i]) then
      return true
    end
  end
  return false
end

-- "1" when a client of Redisson's may stand before owner: as recorded when owner came, as seen now, or as recorded of
-- the last in line.
local function foreign_before(first, told, place)
  if told and (place or told.foreign == '1') then
    return told.foreign
  end
  if #first < SEEN then
    return some_foreign(first) and '1' or '0'
  end
  if told or place then
    return '1'
  end
  local last = call('LINDEX', queue, -1)
  local before = ours(last) and parse(call('HGET', about, last))
  return before and before.foreign or '1'
end

-- When the waiter of ours with this record arrived; nil: there is no record.
local function arrival(told)
  return tonumber((told or ''):match('^(%d+) '))
end

-- A place in front of the first waiter of ours that arrived later, and not far from it: ours stand in order of arrival.
local function place_before(arrived)
  local from, last = 0, call('LLEN', queue)
  while last - from > 16 do
    local middle = math.floor((from + last) / 2)
    local one = call('LINDEX', queue, middle)
    local came = ours(one) and arrival(call('HGET', about, one))
    if not came then
      break
    elseif came > arrived then
      last = middle
    else
      from = middle
    end
  end
  return from
end

-- Insert owner before the first waiter of ours that arrived later. stood: it has a deadline, and may be in the list.
-- Returns its place.
local function put_back(owner, arrived, stood)
  if stood or call('LLEN', queue) > call('ZCARD', timeouts) then
    call('LREM', queue, 1, owner)
  end
  local from = place_before(arrived)
  repeat
    local some = call('LRANGE', queue, from, from + 31)
    local told = some[1] and call('HMGET', about, unpack(some))
    for i = 1, #some do
      if (arrival(told[i]) or 0) > arrived then
        call('LINSERT', queue, 'BEFORE', some[i], owner)
        return from == 0 and i <= SEEN and i or true
      end
    end
    from = from + 32
  until #some < 32
  local size = call('RPUSH', queue, owner)
  return size <= SEEN and size or true
end

-- The deadline behind that of before. Redisson's clients rely on deadlines that add up along the line, and subtract
-- their own part when they leave. Ours add nothing, so that no deadline changes when they leave.
local function behind(before)
  return (before and tonumber(call('ZSCORE', timeouts, before)) or 0) + 1
end

-- Move owner's deadline, so that Redisson does not give it up before its beat is over: it probes for itself.
local function put_off(args, score, place, foreign)
  local owner, till = args[1], millis() + math.max(PLACE, tonumber(args[6]))
  if foreign == '1' and type(place) == 'number' and place > 1 then
    till = math.max(till, behind(call('LINDEX', queue, place - 2)))
  end
  if not score or score < till then
    call('ZADD', timeouts, text(till), owner)
  end
end

-- Stand in line, or stay there. known: the record of owner so far. Returns its place, and "1" when a client of
-- Redisson's has to release the lock before owner gets it, else "0".
local function stand(args, first, score, known, by_foreign, left)
  local owner = args[1]
  local told, place = parse(known[1]), place_of(args[1], first, score)
  local foreign = by_foreign and '1' or foreign_before(first, told, place)
  local arrived = told and told.arrived or now()
  record(args, arrived, foreign)
  if not told then
    if score then -- its record has ended, and so its place: the order in line is that of arrival
      unqueue(owner)
    end
    local last = #first < SEEN and first[#first] or call('LINDEX', queue, -1)
    local joined, crowded = line_up(args, behind(last), left)
    place = joined
    if crowded then
      sweep_records('s')
    end
  else
    place = place or put_back(owner, arrived, score)
    put_off(args, score, place, foreign)
  end
  keep_line(some_foreign(first))
  return place, foreign
end
