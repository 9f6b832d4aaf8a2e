-- Who holds permits of a semaphore, and until when each holder is known to live. The count N does not tell this, and no
-- hold ends by itself: semaphore_change.lua gives permits back when it is told to reclaim.
local YEAR = 365 * 86400000

-- One string, so that a member found by its score tells the number of permits, too.
local function holder(owner, permits)
  return permits .. ' ' .. owner
end

-- The owner lives now, and will report again within lease ms. This must not be the first write of a script that has to
-- work on a full server.
local function lives(holders, owner, permits, lease)
  call('ZADD', holders, text(millis() + lease), holder(owner, permits))
  call('PEXPIRE', holders, YEAR)
end
