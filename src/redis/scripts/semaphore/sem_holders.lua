-- Who holds permits of a semaphore, and until when each holder is known to live. The count N does not tell this, and no
-- hold ends by itself: semaphore_change.lua gives permits back when it is told to reclaim. What a lost key has told, the
-- others tell, too:
--   taken    zset, id -> token. And "permits id" -> ABOUT + lease, for a hold of more than one permit or with a long lease
--   holders  zset, "permits id" -> the ms until which the holder is known to live
local YEAR, ABOUT, PRESUMED = 365 * 86400000, 9e15, 600000 -- no token is above ABOUT

-- One string, so that a member found by its score tells the number of permits, too.
local function holder(owner, permits)
  return permits .. ' ' .. owner
end

-- The owner lives now, and will report again within lease ms. This must not be the first write of a script that has to
-- work on a full server. Returns whether it was not there before.
local function lives(holders, owner, permits, lease)
  local new = call('ZADD', holders, text(millis() + lease), holder(owner, permits))
  call('PEXPIRE', holders, YEAR)
  return new == 1
end

-- Permits that holders have: of our clients.
local function held(holders)
  local all, out = call('ZRANGE', holders, 0, -1), 0
  for i = 1, #all do
    out = out + all[i]:match('^%d+')
  end
  return out
end
