-- Acquire permits for the time of a lease. The same id sent twice gets the same grant and no shorter lease.
-- A waiter for one permit stands in line, and is told when its turn has come. Returns {1, token, tokens, permits that are
-- left, ms until the first lease ends}; {1, token, 1}: it was granted before; {0, ms until the next probe or -1, 1 when
-- it must listen to Redisson's channel}: too few are left; {-1}: keys of another kind; {-2}: the gate is closed.
-- KEYS: lock, fence, gate, leases, turns (see turns.lua), once (id -> token). ARGV: owner, lease, permits, mode (0 try, 1
-- line, 2 poll), listening, beat, keep, ticket, channel, "", block
--@include semaphore/sem_counter.lua
--@include semaphore/sem_token.lua
--@include semaphore/sem_once.lua
--@include semaphore/sem_total.lua
--@include permit_ids.lua
local turns = KEYS[5]
--@include shared/turns.lua
--@include semaphore/sem_turns.lua
--@include permit_pool.lua
local owner, lease, permits = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local till = end_of(lease)

-- The longest lease so far; LEASE unless it was longer.
local LEASE, longest, all = 30000, nil, nil

local function new_token()
  local token, few = reserve(ARGV[7], ARGV[11])
  remember(owner, 1, token, math.max(lease, WHILE))
  if lease > (longest or LEASE) then
    call('HSET', once, '^', text(lease))
  end
  return token, few
end

-- Ms until the first lease ends, or -1.
local function next_end()
  local first = call('ZRANGE', leases, 0, 0, 'WITHSCORES')
  local score = tonumber(first[2] or NEVER)
  return score < NEVER and math.max(score - millis(), 1) or -1
end

-- Make leases last as long as the count. Another name that has permits there may have another end.
local function share_end()
  local ttl = call('PTTL', lock)
  if ttl > 0 and not has_twin() then
    call('PEXPIRE', leases, ttl)
  else
    call('PERSIST', leases)
  end
end

local function grant(ids)
  local token, few = new_token()
  local more = call('DECRBY', lock, #ids)
  for i = 1, #ids do
    call('ZADD', leases, text(till), ids[i])
  end
  share_end()
  return { 1, token, few, more, next_end() }
end

local left, _, out = reclaim(ARGV[9])
if not left then
  return { -1 }
end
local ids, told = ids_of(lock, owner, permits), nil
told, all, longest = recall_with(owner, '=', '^')
local found = present(leases, ids)
if told and told[1] == 0 then -- it was given up
  return { 0, -1, 1 }
elseif #found == permits then
  reset(leases, ids, till, true)
  return { 1, told and told[2] or (new_token()), 1 }
end
if call('EXISTS', KEYS[3]) == 1 then
  return { -2 }
end
if #found > 0 then
  left = (give_back(found, ARGV[9]))
end
local others, refused = turn_of(owner, permits, left, next_end)
if refused then
  if all and left + out < all and missing(left, out) > 0 then
    note(missing(left, out))
  end
  return refused
end
local granted = grant(ids)
if others then
  turn_over(owner, granted[4])
end
return granted
