-- Shared by the scripts of the permit semaphore. N counts the permits that are left; leases has those that are out.
-- The script includes sem_turns.lua, sem_total.lua and permit_ids.lua before this.
--   once   "^" -> the longest lease in ms; "?" -> "gap since": so many permits are neither left nor out, since that ms
local leases = KEYS[4]

local twin, in_braces = twin_of(lock)
-- Whether a semaphore of the other name may use leases, too. Only asked when it matters.
local function has_twin()
  return twin ~= nil and redis.pcall('TYPE', twin).ok == 'string'
end

-- Whether an id belongs to the other name.
local function of_twin(id)
  local braces = of_braces(id)
  return braces ~= nil and braces ~= in_braces
end

-- Permits of this name that are out, of all that are in leases.
local function own(out)
  if out == 0 or not has_twin() then
    return out
  end
  local ids, mine = call('ZRANGE', leases, 0, -1), 0
  for i = 1, #ids do
    mine = mine + (of_twin(ids[i]) and 0 or 1)
  end
  return mine
end

-- Permits left, whether N is there, permits in leases; nil for keys of another kind.
local function pool()
  local left, there = count()
  local out = left and ask('ZCARD', leases)
  if out and out > 0 and not there then
    left, there = mend(own(out))
  end
  if out then
    return left, there, out
  end
end

-- Permits whose lease has ended go back to the name that they belong to. Returns how many are left of this name.
local function part(left, ended)
  local ids, back = call('ZRANGE', leases, 0, ended - 1), 0
  for i = 1, #ids do
    local mine = not of_twin(ids[i])
    if mine or type(redis.pcall('INCRBY', twin, 1)) == 'number' then
      call('ZREM', leases, ids[i])
      back = back + (mine and 1 or 0)
    end
  end
  return back > 0 and call('INCRBY', lock, text(back)) or left, back
end

-- The same, after permits whose lease has ended were given back, MOST of them. And how many more have ended.
local MOST = 1024 -- no request is for more permits
local function reclaim(channel)
  local left, there, out = pool()
  local ended = left and out > 0 and call('ZCOUNT', leases, '-inf', text(millis())) or 0
  if ended == 0 then
    return left, there, out, 0
  end
  local some, back = math.min(ended, MOST), nil
  if has_twin() then
    left, back = part(left, some)
  else
    back = call('ZREMRANGEBYRANK', leases, 0, some - 1)
    left = call('INCRBY', lock, back)
  end
  announce_all(channel, left, left, left)
  return left, true, out - some, ended - some
end

-- How many permits are missing: neither left nor out. So it is when the server has lost leases, or when a client of
-- Redisson's has lowered the number.
local function missing(left, out)
  local all = total()
  return all and all - left - own(out) or 0
end

-- Remember since when permits are missing. Returns that time in ms.
local function note(gap)
  local told = call('HGET', once, '?')
  local before, since = (told or ''):match('^(%d+) (%d+)$')
  if tonumber(before) == gap then
    return tonumber(since)
  end
  call('HSET', once, '?', text(gap) .. ' ' .. text(millis()))
  return millis()
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
