-- Acquire a read hold: when nobody holds, when others read, or under the write hold of the same owner. The same id sent
-- twice gets the same grant and no shorter lease.
-- Returns {1, token}; {0, ms until the next probe, 1}; {-1}: another kind of key; {-2}: the gate is closed.
-- KEYS: lock, fence, gate, hold, writer, turns, holds. ARGV: owner, lease, block, mode, listening, beat, keep, ticket, channel, write hold
-- of the same owner or ""
--@include rw.lua
--@include semaphore/sem_token.lua
local CHOSEN, DEAD = 4, 8
local own, lease, under, hold = ARGV[1], tonumber(ARGV[2]), ARGV[10], KEYS[4]

local function held_already()
  return call('HEXISTS', lock, own) == 1 and call('GET', hold)
end

-- Remove some entries of dead holders, in one of CHOSEN calls: more than such calls add.
local function tidy(token)
  local dead = token % CHOSEN == 0 and call('ZRANGEBYSCORE', holds, '-inf', text(millis()), 'LIMIT', 0, DEAD) or {}
  if dead[1] then
    call('ZREM', holds, unpack(dead))
  end
end

local mode = settle(look(), ARGV[9])
if mode == 'other' then
  return { -1 }
end
local token = mode ~= 'free' and held_already()
if token then
  extend(hold, lease)
  extend(lock, lease)
  note(holds, own, millis(), lease)
  return { 1, tonumber(token) }
elseif call('EXISTS', KEYS[3]) == 1 then
  return { -2 }
elseif call('GET', hold) == BURIED then
  return { 0, -1, 1 }
elseif mode == 'write' and (under == '' or call('HEXISTS', lock, under) == 0) then
  return { 0, call('PTTL', lock), 1 }
elseif mode ~= 'write' and call('EXISTS', KEYS[5]) == 1 then
  return { 0, math.max(call('PTTL', KEYS[5]), 1), 1 }
end
local left = mode ~= 'write' and others(holds, own, millis(), under) or 0
if left > 0 then
  return { 0, left, 1 }
end
token = reserve(ARGV[7])
note(holds, own, millis(), lease)
tidy(token)
if mode == 'free' then
  call('HSET', lock, 'mode', 'read')
end
call('HSET', lock, own, '1')
call('SET', hold, text(token), 'PX', lease)
extend(lock, lease)
if call('HLEN', lock) > FEW then
  sweep(some())
end
return { 1, token }
