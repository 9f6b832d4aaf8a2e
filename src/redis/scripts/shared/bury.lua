--@include buried.lua
local BURIED, MANY = 120000, 1000

-- The key expires when nothing is added for a while. In a busy key expired fields are removed when there are more than
-- MANY.
local function tidy()
  local fields = redis.call('HKEYS', about)
  for i = 1, #fields > MANY and #fields or 0 do
    local number, till = tombstone(about, fields[i])
    if number and fields[i]:sub(1, #TOMB) == TOMB and till < millis() then
      redis.call('HDEL', about, fields[i])
    end
  end
end

-- For BURIED ms the owner's number and all lower ones get nothing. HDEL comes first: a full server refuses HSET as the
-- first write of a script.
local function bury(owner)
  local field = TOMB .. owner:sub(1, 36)
  local number = math.max(tonumber(owner:sub(38)), tombstone(about, field) or 0)
  redis.call('HDEL', about, field)
  redis.call('HSET', about, field, text(number) .. ' ' .. text(millis() + BURIED))
  if redis.call('PTTL', about) < BURIED then
    redis.call('PEXPIRE', about, BURIED)
  end
  tidy()
end
