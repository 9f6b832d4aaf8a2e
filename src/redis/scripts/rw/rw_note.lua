--@include rw_holds.lua
-- The id holds from at, in ms, for lease ms, or longer if it does already. This must not be the first write of a script
-- that has to work on a full server. Redis before 6.2 does not know GT.
local function note(holds, id, at, lease)
  local ends = at + lease + (id:find(':write', 1, true) and WRITER or 0)
  local score = string.format('%.0f', ends)
  if type(redis.pcall('ZADD', holds, 'GT', score, id)) == 'table' then
    local before = redis.call('ZSCORE', holds, id)
    if not before or tonumber(before) < ends then
      redis.call('ZADD', holds, score, id)
    end
  end
  extend(holds, lease)
end
