-- Give up what owner holds or waits for: 1 when it held the lock, 0 when not. Harmless when repeated.
local function give_up(owner, channel, listening)
  if redis.call('HEXISTS', lock, owner) == 0 then
    leave(owner)
    return 0
  end
  redis.call('DEL', lock)
  pass_on(channel, listening)
  return 1
end
