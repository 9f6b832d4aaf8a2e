-- The line of a semaphore's waiters, see turns.lua. Those that want more than one permit do not stand in it: they take
-- permits when there are enough, as clients of Redisson's do.

-- announce() for clients of Redisson, and for ours. left: permits that are left.
local function announce_all(channel, number, more, left)
  local told = announce(channel, number, more)
  in_line('call_next', left)
  return told
end

-- left: permits that are left; soon: ms until there may be more, -1, or a function that tells them. Returns whether
-- there is a line; and the reply, when the owner may not have its permits now. The first in line listens to Redisson's
-- channel: clients of Redisson's give permits back there only.
local function turn_of(owner, permits, left, soon)
  local process, enough = owner:sub(1, 36), left >= permits
  local may, ms = nil, nil
  if enough and permits == 1 then
    may, ms = in_line('may_have', process, left)
  end
  if enough and may ~= false then
    return may
  end
  ms = ms or type(soon) == 'function' and soon() or soon
  if ARGV[4] ~= '1' or permits > 1 then
    return false, { 0, ms, 1 }
  end
  return false, { 0, ms, line().stand(process, tonumber(ARGV[6])) and 1 or 0 }
end

-- The owner has got its permits. There may be some left for the next one.
local function turn_over(owner, left)
  in_line('leave', owner:sub(1, 36))
  in_line('call_next', left)
end

-- The owner has released, or waits no longer. stays: "1" where its process goes on waiting.
local function leave_unless(stays, owner)
  return stays ~= '1' and in_line('leave', owner:sub(1, 36))
end
