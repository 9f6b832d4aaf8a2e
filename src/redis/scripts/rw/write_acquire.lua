-- Acquire the write hold, when nobody holds. The same id sent twice gets the same grant and no shorter lease.
-- A waiter stands in line, and is told when its turn has come. Returns {1, token, tokens}; {1, token, 1}: it was granted
-- before; {0, ms until the next probe or -1, 1 when it must listen to Redisson's channel}; {-1}: another kind of key;
-- {-2}: the gate is closed.
-- KEYS: lock, fence, gate, hold, writer, turns, holds. ARGV: owner (ends in ":write"), lease, block, mode (0 try, 1 line, 2
-- poll), listening, beat, keep, ticket, channel
--@include rw.lua
--@include semaphore/sem_token.lua
local own, lease = ARGV[1], tonumber(ARGV[2])

-- While a writer waits for readers, no new ones get in. It says so again and again; when it is gone they wait for STAY ms
-- at most. After LONG ms they get in for a moment: a holder may wait for one of them.
local STAY, AGAIN, LONG = 500, 250, 10000
local function keep_readers_out()
  local at = millis()
  local since = call('GET', KEYS[5])
  if not since then
    redis.pcall('SET', KEYS[5], text(at), 'PX', STAY) -- a full server refuses it
  elseif at - since < LONG then
    call('PEXPIRE', KEYS[5], STAY)
  end
end

-- Whether a client of Redisson's may hold. Of many holders that is not known.
local function foreign_holder()
  if call('HLEN', lock) > FEW then
    return true
  end
  local fields = call('HKEYS', lock)
  for i = 1, #fields do
    if fields[i]:find(':', 1, true) and fields[i]:sub(15, 15) ~= '8' then
      return true
    end
  end
  return false
end

-- The first in line listens to Redisson's channel while a client of Redisson's holds: it releases there only.
local process = own:sub(1, 36)
local function stand()
  return ARGV[4] == '1' and line().stand(process, tonumber(ARGV[6]))
end

local function refuse(left, first)
  return { 0, left, (ARGV[4] ~= '1' or first and foreign_holder()) and 1 or 0 }
end

-- Ms until the holders have ended, nil when nobody holds. Not in mode write.
local function until_free(mode)
  if mode == 'read' then
    local last, more = last_hold()
    if last > 0 or more then -- one lives; or there are more of the dead than one call may remove: the next one goes on
      return last > 0 and call('PTTL', lock) or 1
    end
  end
  local left = others(holds, own, millis())
  return left > 0 and left or nil
end

local mode = settle(look(), ARGV[9])
if mode == 'other' then
  return { -1 }
end
-- While own holds, only reads under it are granted. Before the first of them, the last reserved token is own's. Those reads
-- are requested only when own's grant is known. So a request that comes after them is a late copy, and nobody waits for
-- its answer. Even that answer is sound: it lies between own's token and the last token of those reads. All of these
-- belong to one process, above every earlier grant's token and below every later one's.
if mode ~= 'free' and call('HEXISTS', lock, own) == 1 then
  extend(lock, lease)
  note(holds, own, millis(), lease)
  return { 1, reserved(ARGV[7]), 1 }
elseif call('EXISTS', KEYS[3]) == 1 then
  return { -2 }
elseif call('GET', KEYS[4]) == BURIED then
  return { 0, -1, 1 }
elseif mode == 'write' then
  return refuse(call('PTTL', lock), stand())
end
local left = until_free(mode)
if left then
  local first = stand()
  if first or ARGV[4] == '2' then
    keep_readers_out()
    left = math.min(left, AGAIN)
  end
  return refuse(left, first)
end
local may, soon = in_line('may_have', process, 1)
if may == false then
  return refuse(soon, stand())
end
local token, few = reserve(ARGV[7], ARGV[3])
call('DEL', lock, KEYS[5], holds)
note(holds, own, millis(), lease)
call('HSET', lock, 'mode', 'write', own, '1')
call('PEXPIRE', lock, lease)
if may then
  in_line('leave', process)
end
return { 1, token, few }
