-- The line of the mutex, included after give.lua: who is next, and turns of foreign clients.
local TURN = '*'
local EARS, NO_EARS = '9e15', '(9e15'
local GRACE = 25
-- A call removes so many dead waiters at most, and so many that live but cannot be told. MORE, instead of the ms that a
-- foreign turn lasts: there may be others behind these. The caller, or one that is told, then probes again.
local DEAD, DEAF, MORE = 12, 8, -1

-- The last token that was reserved for the holder of the lock; a new one when the counter is gone.
local function last_token(keep)
  return tonumber(redis.call('GET', fence)) or (tokens(fence, now(), 1, keep))
end

local function gate_closed()
  return not gate or redis.call('EXISTS', gate) == 1
end

local swept = false
-- Remove the dead ones at the head of the line.
local function sweep()
  local some, dead, ears = redis.call('ZRANGE', line, 0, DEAD - 1), {}, {}
  local told = redis.call('HMGET', about, unpack(some))
  for i = 1, #some do
    if parse(told[i]) then
      break
    end
    dead[i], ears[2 * i - 1], ears[2 * i] = some[i], '+' .. some[i], '++' .. some[i]
  end
  redis.call('ZREM', line, unpack(dead))
  redis.call('ZREM', line, unpack(ears))
  redis.call('HDEL', about, unpack(dead))
  swept = true
end

-- The first living waiter and its entry; or nil and the ms that a foreign turn still lasts, or MORE. Dead waiters are
-- removed. over: a foreign turn is removed, too.
local function head(over)
  while true do
    local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
    if not first[1] then
      return nil, 0
    end
    if first[1] == TURN then
      local left = -tonumber(first[2]) - millis()
      if left > 0 and left <= GRACE and not over then -- more is a clock that was set back
        return nil, left
      end
      redis.call('ZREM', line, TURN)
    else
      local told = parse(redis.call('HGET', about, first[1]))
      if told then
        return first[1], told
      elseif swept then
        return nil, MORE
      end
      sweep()
    end
  end
end

-- Make the key last for at least as long as a waiter in line may be silent. beat: ms
local function keep_for(key, beat)
  if redis.call('PTTL', key) < beat * 3 / 2 then
    redis.call('PEXPIRE', key, 2 * beat)
  end
end

-- Give the free lock to the first living waiter that can be told, and tell that one only.
-- own, args: the id and the arguments of the try that calls this, if any. It gets a reply, not a message. It gets what
-- it asks for now, not what it asked for when it joined the line. first, told: the head of the line, if known.
-- Returns what grant() returns when own got the lock; true when another got it; else nil and the ms left of a foreign
-- turn, or MORE.
local function grant_next(own, args, first, told)
  for _ = 1, DEAF do
    if not first then
      first, told = head()
    end
    if not first then
      return nil, told
    end
    leave(first)
    if first == own then
      return grant(own, args[2], tonumber(args[3]), args[7])
    end
    if told.polls or hears(first) then
      give(first, told)
      return true
    end
    first = nil
  end
  return nil, MORE
end

-- The head of the line may be dead, and there are more behind it. One of those that came last is told to probe, so that
-- somebody does.
local function nudge()
  local behind = redis.call('ZCOUNT', line, EARS, '+inf')
  local last = redis.call('ZRANGE', line, -DEAF - behind, -1 - behind)
  for i = #last, 1, -1 do
    local one = parse(redis.call('HGET', about, last[i]))
    if one and (one.polls or hears(last[i])) then
      tell(last[i], 'open ' .. last[i]:sub(38) .. ' 0 ' .. lock)
      return
    end
  end
end

-- Let foreign clients try first: they are told Redisson's way, ours hold back for GRACE ms.
local function open_turn()
  local until_ = millis() + GRACE
  redis.call('ZADD', line, text(-until_), TURN)
  keep_for(line, GRACE)
end

-- The number of subscribers of Redisson's channel that are not waiters of ours, and of clients that poll.
-- listening: own subscriptions, 0 to 2, less 4 for each client that polls.
local function foreigners(channel, listening)
  local polls = listening < 0 and math.floor((3 - listening) / 4) or 0
  local heard = redis.call('PUBSUB', 'NUMSUB', channel)[2] - listening - 4 * polls
  heard = heard > 0 and heard - redis.call('ZCOUNT', line, EARS, '+inf') or heard
  return polls > 0 and polls + math.max(heard, 0) or heard
end

-- The lock has become free: the next waiter in line gets it, or foreign clients get their share of turns.
local function pass_on(channel, listening)
  local first, told = head(true)
  if told == MORE then
    nudge()
  end
  if not first then
    if redis.call('PUBLISH', channel, '0') > math.max(listening, 0) and foreigners(channel, listening) > 0 then
      open_turn()
    end
    return
  end
  local foreign = foreigners(channel, listening)
  if foreign > 0 then
    local all = foreign + redis.call('ZCOUNT', line, 0, NO_EARS)
    if redis.call('HINCRBY', about, TURN, foreign) >= all then
      redis.call('HINCRBY', about, TURN, -all)
      open_turn()
      redis.call('PUBLISH', channel, '0')
      tell(first, 'open ' .. first:sub(38) .. ' ' .. GRACE .. ' ' .. lock)
      return
    end
  end
  local given, left
  if not gate_closed() then
    given, left = grant_next(nil, nil, first, told)
  end
  if left == MORE then
    nudge()
  end
  if not given then
    redis.call('PUBLISH', channel, '0')
  end
end
