-- embed.py puts this before a script that goes, with ASKING, to the server to which its slot is moving. That server
-- refuses commands with several keys while one of them is missing. So such a script declares its first key only, and the
-- commands below are made of single ones.
-- ARGV begins with the number of keys and all keys but the first.
-- The script comes here only after the slot's last server has said that it has none of these keys. Such a server makes no
-- new keys. So a key that is missing here does not exist. The hold keys of other readers are not among these keys: one
-- that is missing may be on the way, and counts as if it lived as long as the lock, which is never less.
local server, redis = redis, { error_reply = redis.error_reply, sha1hex = redis.sha1hex }
for i = 2, table.remove(ARGV, 1) do
  KEYS[i] = table.remove(ARGV, 1)
end

local function asking(call, command, ...)
  local keys = { ... }
  if (command == 'EXISTS' or command == 'DEL' or command == 'UNLINK') and keys[2] then
    local count = 0
    for i = 1, #keys do
      count = count + call(command, keys[i])
    end
    return count
  end
  local said = call(command, ...)
  if said == -2 and command == 'PTTL' and keys[1] ~= KEYS[4] and keys[1]:find(':rwlock_timeout:', 1, true) then
    return call(command, KEYS[1])
  end
  return said
end

function redis.call(...)
  return asking(server.call, ...)
end

function redis.pcall(...)
  return asking(server.pcall, ...)
end
