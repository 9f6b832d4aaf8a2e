-- A waiter has left. If it was the one that watches foreign clients, the next one has to.
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

-- The lock stays taken for rest ms, under an id that nobody sends. So a late or repeated release, renewal or acquire of
-- owner does not find its grant again and cannot make the rest longer. Waiters that sleep until the lease would have
-- ended are told to probe: Redisson's have no other way to learn that it ends sooner.
local function let_rest(owner, channel, rest)
  redis.call('HSET', lock, owner .. ':rest', '1')
  redis.call('PEXPIRE', lock, rest)
  redis.call('PUBLISH', channel, '0')
end

-- Give up what owner holds or waits for: 1 when it held the lock, 0 when not. Harmless when repeated. A read or write
-- hold of Redisson's that has entered the hash stays, and none of ours gets in. gone: owner is out of the hash already.
local function give_up(owner, channel, listening, rest, gone)
  if not gone and redis.call('HDEL', lock, owner) == 0 then
    leave(owner)
    tell_next()
    return 0
  end
  if redis.call('EXISTS', lock) == 1 then
    tell_next()
  elseif rest > 0 then
    let_rest(owner, channel, rest)
  else
    pass_on(channel, listening)
  end
  return 1
end
