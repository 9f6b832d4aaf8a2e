-- A permit that is out is a member of Redisson's zset: 16 raw bytes, its score the end of the lease in ms since the epoch. Ours
-- are made of the wire id "uuid:number": 10 bytes of the uuid, then number, number - 1 and so on in 6 bytes.
local NEVER = 922337203685477

local function bytes(hex)
  return (hex:gsub('%x%x', function(two)
    return string.char(tonumber(two, 16))
  end))
end

local function ids_of(owner, permits)
  local uuid, number = owner:match('^(.*):(%d+)$')
  local start, ids = uuid:gsub('-', ''):sub(1, 20), {}
  for i = 1, tonumber(permits) do
    ids[i] = bytes(start .. string.format('%012x', number - i + 1))
  end
  return ids
end

-- The ids that are in leases, and the lowest of their scores.
local function present(leases, ids)
  local found, lowest = {}, math.huge
  for i = 1, #ids do
    local score = ask('ZSCORE', leases, ids[i])
    if type(score) == 'string' then
      found[#found + 1] = ids[i]
      lowest = math.min(lowest, tonumber(score))
    end
  end
  return found, lowest
end

local function end_of(lease)
  return math.min(millis() + lease, NEVER)
end

-- Set new ends for leases that are there. longer: only for those that end earlier. This takes no memory, yet a full
-- server refuses ZADD unless the script has written before. Something is always written, because replicas confirm only
-- writes.
local function reset(leases, ids, till, longer)
  local same = true
  call('ZREM', leases, '')
  for i = 1, #ids do
    if not longer or tonumber(call('ZSCORE', leases, ids[i])) < till then
      call('ZADD', leases, text(till), ids[i])
      same = false
    end
  end
  if same then
    call('ZADD', leases, '0', '')
    call('ZREM', leases, '')
  end
end
