-- Who holds permits of a semaphore, and until when the holder is known to live. N says nothing of it, and nothing ends by itself:
-- semaphore_change.lua gives permits back when somebody asks for it.
local YEAR = 365 * 86400000

-- One string, so that a look at the score finds the permits, too.
local function holder(owner, permits)
  return permits .. ' ' .. owner
end

-- Owner lives now: it is to be heard of again within lease ms. Not to be the first write of a script that must work on a full server.
local function lives(holders, owner, permits, lease)
  call('ZADD', holders, text(millis() + lease), holder(owner, permits))
  call('PEXPIRE', holders, YEAR)
end
