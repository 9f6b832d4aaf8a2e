-- Shared by the scripts of the permit semaphore. N counts the permits that are left; leases has those that are out.
-- The script includes sem_turns.lua before this.
local leases = KEYS[4]

-- Permits left, whether N is there, permits out; nil for keys of another kind.
local function pool()
  local left, there = count()
  local out = left and ask('ZCARD', leases)
  if out then
    return left, there, out
  end
end

-- The same, after permits whose lease has ended were given back, MOST of them. And how many more have ended.
local MOST = 1024 -- no request is for more permits
local function reclaim(channel)
  local left, there, out = pool()
  local ended = left and out > 0 and call('ZCOUNT', leases, '-inf', text(millis())) or 0
  if ended == 0 then
    return left, there, out, 0
  end
  local back = call('ZREMRANGEBYRANK', leases, 0, math.min(ended, MOST) - 1)
  left = call('INCRBY', lock, back)
  announce_all(channel, left, left, left)
  return left, true, out - back, ended - back
end

-- Move permits from leases back into N. Returns the permits left then, and how many subscribers were told. One permit is
-- announced by the new count, several by their number.
local function give_back(ids, channel)
  for i = 1, #ids do
    call('ZREM', leases, ids[i])
  end
  local left = call('INCRBY', lock, #ids)
  return left, announce_all(channel, #ids == 1 and left or #ids, left, left)
end
