-- embed.py puts this before a script where clients subscribe to a lock's channel either way. A message goes to the
-- plain and to the sharded channel, and the subscribers of both are counted. Our own channels are plain only.
local server, redis = redis, { pcall = redis.pcall, error_reply = redis.error_reply, sha1hex = redis.sha1hex }

local function of_a_lock(channel)
  return channel:sub(1, 13) ~= 'dlock_client:'
end

function redis.call(command, ...)
  local first, second = ...
  local said = server.call(command, ...)
  if command == 'PUBLISH' and of_a_lock(first) then
    return said + server.call('SPUBLISH', first, second)
  elseif command == 'PUBSUB' and of_a_lock(second) then
    said[2] = said[2] + server.call('PUBSUB', 'SHARDNUMSUB', second)[2]
  end
  return said
end
