-- A waiter left. If it was the one that watches what foreign clients do, the next one has to.
local function tell_next()
  local holder = redis.call('HKEYS', lock)[1]
  if holder and holder:sub(15, 15) == '8' then
    return
  end
  local first = redis.call('ZRANGE', line, 0, 1)
  local waiter = first[first[1] == TURN and 2 or 1]
  if waiter then
    tell(waiter, 'open ' .. waiter:sub(38) .. ' ' .. GRACE .. ' ' .. lock)
  end
end

-- Give up what owner holds or waits for: 1 when it held the lock, 0 when not. Harmless when repeated.
local function give_up(owner, channel, listening)
  if redis.call('HEXISTS', lock, owner) == 0 then
    leave(owner)
    tell_next()
    return 0
  end
  redis.call('DEL', lock)
  pass_on(channel, listening)
  return 1
end
