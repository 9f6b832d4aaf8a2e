-- Ms until the last other holder of ours ends, at most 0 when there is none; and its id. under: a reader's own write hold
-- or ""; readers wait for writers only. nil: a writer asks. A grant to a writer removes all entries but its own. So there
-- is one writer at most, and it stands behind all readers.
local function others(holds, own, at, under)
  local last, left, who = redis.call('ZRANGE', holds, '-2', '-1', 'WITHSCORES'), 0, nil
  for i = 1, #last, 2 do
    local id, ends = last[i], tonumber(last[i + 1])
    local writes = ends >= WRITER
    local ms = ends - (writes and WRITER or 0) - at
    if ms > left and id ~= own and id ~= under and (writes or not under) then
      left, who = ms, id
    end
  end
  return left, who
end
