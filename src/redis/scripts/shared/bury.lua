--@include buried.lua
local BURIED, MANY = 120000, 1000

-- The key vanishes when nothing is added for a while. In a busy one outlived fields go when there are many.
local function tidy()
  local fields = redis.call('HKEYS', about)
  for i = 1, #fields > MANY and #fields or 0 do
    local number, till = tombstone(about, fields[i])
    if number and fields[i]:sub(1, #TOMB) == TOMB and till < millis() then
      redis.call('HDEL', about, fields[i])
    end
  end
end

-- The owner's number and those before it get nothing for so many ms. HDEL comes first: a full server refuses HSET as the first
-- write of a script.
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
