--@include buried.lua
local BURIED, MANY, EVERY, SOME = 120000, 1000, 16, 50

-- The key expires when nothing is added for a while. In a busy key with more than MANY fields, expired tombstones are
-- removed a few at a time; a field of its own says where to go on.
local function tidy()
  local fields = redis.call('HLEN', about)
  if fields <= MANY or fields % EVERY > 0 then
    return
  end
  local found = redis.call('HSCAN', about, redis.call('HGET', about, TOMB .. '*') or '0', 'COUNT', SOME)
  for i = 1, #found[2], 2 do
    local number, till = tombstone(about, found[2][i])
    if number and found[2][i]:sub(1, #TOMB) == TOMB and till < millis() then
      redis.call('HDEL', about, found[2][i])
    end
  end
  redis.call('HSET', about, TOMB .. '*', found[1])
end

-- For BURIED ms the owner gets nothing; without whose, its client's lower numbers get nothing either. HDEL comes first: a
-- full server refuses HSET as the first write of a script.
local function bury(owner, whose)
  local field = TOMB .. (whose or owner:sub(1, 36))
  local number = math.max(tonumber(owner:sub(38)), tombstone(about, field) or 0)
  redis.call('HDEL', about, field)
  redis.call('HSET', about, field, text(number) .. ' ' .. text(millis() + BURIED))
  if redis.call('PTTL', about) < BURIED then
    redis.call('PEXPIRE', about, BURIED)
  end
  tidy()
end
