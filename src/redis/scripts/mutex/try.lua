-- One try to get the lock. Returns {1, token, number of tokens when it is less than block}; {0, ms until the next
-- probe, 1 for a foreign holder or turn}, or what mend() returns; {-1}: another kind of lock; {-2}: the gate is closed,
-- and own has lost its place in line. own keeps what it holds already.
-- args: owner, lease, block, mode (0 try, 1 line, 2 line and poll), listening, beat, keep, ticket. looked: end, token and
-- rest of the hold as the last probe saw it, or nothing.
--@include mend.lua
local function stand_in_line(args)
  local own, beat = args[1], tonumber(args[6])
  local told = table.concat({
    text(millis() + beat), args[2], args[3], args[7], args[4] == '2' and '1' or '0', args[8],
  }, ' ')
  local new = redis.call('ZADD', line, 'NX', text(now()), own) == 1
  if args[5] ~= '0' then
    redis.call('ZADD', line, EARS, '+' .. own, EARS, (args[5] == '2' and '++' or '+') .. own)
  elseif not new then
    redis.call('ZREM', line, '+' .. own, '++' .. own)
  end
  redis.call('HSET', about, own, told)
  keep_for(line, beat)
  keep_for(about, beat)
end

local function try(args, looked)
  local own, block = args[1], tonumber(args[3])
  local holders = redis.call('HKEYS', lock)
  for i = 1, #holders do
    if holders[i] == own then
      redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock) + 1, tonumber(args[2]))) -- a write, for replicas to confirm
      return { 1, last_token(args[7]), 1 }
    elseif holders[i] == 'mode' then
      return { -1 }
    end
  end
  if gate_closed() then
    leave(own)
    return { -2 }
  end
  if buried(about, own) then
    return { 0, -1, 0 }
  end
  if #holders == 0 then
    local token, left = grant_next(own, args)
    if not token and left == 0 then
      token, left = grant(own, args[2], block, args[7])
    end
    if token and token ~= true then
      return { 1, token, left }
    end
    if args[4] ~= '0' then
      stand_in_line(args)
    end
    if left == MORE then
      return { 0, 0, 0 }
    end
    return { 0, left or redis.call('PTTL', lock), left and 1 or 0 }
  end
  local foreign = holders[1]:sub(15, 15) ~= '8'
  if foreign then
    redis.call('ZREM', line, TURN)
  end
  if args[4] ~= '0' then
    stand_in_line(args)
    if not foreign then
      return mend(unpack(looked or {}))
    end
  end
  return { 0, redis.call('PTTL', lock), foreign and 1 or 0 }
end
