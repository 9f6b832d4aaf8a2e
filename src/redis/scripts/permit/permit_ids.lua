-- A permit that is out is a member of Redisson's zset: 16 raw bytes, its score the end of the lease in ms since the epoch. Ours
-- are made of the wire id "uuid:number": 10 bytes of the uuid, then number, number - 1 and so on in 6 bytes.
-- In Redisson's layout the names k and {k} share that zset. So in the ids of {k} the highest bit of byte 9 is changed: it
-- is 1 in every uuid.
local NEVER = 922337203685477

-- The other name that shares the zset of this one, and whether this is the one in braces. nil: there is none.
local function twin_of(name)
  local inner = name:match('^{([^{]+)}$')
  if inner then
    return inner, true
  end
  return not name:find('{', 1, true) and '{' .. name .. '}' or nil, false
end

-- Whether an id is one of ours of the name in braces; nil for ids of others. Byte 7 begins with the version of our uuids.
local function of_braces(id)
  if #id == 16 and math.floor(id:byte(7) / 16) == 8 then
    return id:byte(9) < 128
  end
end

local function bytes(hex)
  return (hex:gsub('%x%x', function(two)
    return string.char(tonumber(two, 16))
  end))
end

local function ids_of(name, owner, permits)
  local uuid, number = owner:match('^(.*):(%d+)$')
  local start, ids = bytes(uuid:gsub('-', ''):sub(1, 20)), {}
  if select(2, twin_of(name)) then
    start = start:sub(1, 8) .. string.char((start:byte(9) + 128) % 256) .. start:sub(10)
  end
  for i = 1, tonumber(permits) do
    ids[i] = start .. bytes(string.format('%012x', number - i + 1))
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
