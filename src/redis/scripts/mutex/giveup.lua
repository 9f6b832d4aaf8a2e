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

-- The lock stays taken for rest ms. It rests under another id, one that nobody sends: a release, a renewal or an acquire of
-- owner that comes late or twice does not find its grant again and cannot make the rest longer. Who sleeps until the lease
-- would have ended is told to look: Redisson has no other way to hear that it ends sooner.
local function let_rest(owner, channel, rest)
  redis.call('HSET', lock, owner .. ':rest', '1')
  redis.call('PEXPIRE', lock, rest)
  redis.call('PUBLISH', channel, '0')
end

-- Give up what owner holds or waits for: 1 when it held the lock, 0 when not. Harmless when repeated. A read or a write
-- of Redisson's that has entered the hash stays, and nobody of ours gets in. gone: it is out of the hash already.
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
