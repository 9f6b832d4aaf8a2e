-- Which keys of a lock a server still has, while it gives their slot away. Commands on a key that it does not have fail there.
-- Returns the keys; the word STAYS: the slot does not move, or has gone; LARGE: they are too large to move in one step.
-- ARGV: how much may move, a key that nobody makes, what the keys of read holds begin with or "", keys of locks. With read holds they
-- are those of one read-write lock: the first is its hash, the seventh that of its holders.
local most, nobody, hold = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local COUNT = { string = 'STRLEN', hash = 'HLEN', list = 'LLEN', zset = 'ZCARD' }
local KEY, TRY = 8, 4 -- what a key costs, and to look for one that is not there, in members
local found, kinds, size, tries = {}, {}, 0, 0

-- The reply, or nil when the server does not have the key.
local function ask(command, key, ...)
  local said = redis.pcall(command, key, ...)
  if type(said) ~= 'table' or not said.err then
    return said
  elseif said.err:find('non local', 1, true) then
    return nil
  end
  error(said.err, 0)
end

local function add(key)
  tries = tries + 1
  if tries > most / TRY then
    size = most + 1
  end
  if size > most or kinds[key] or ask('EXISTS', key) ~= 1 then
    return
  end
  kinds[key] = ask('TYPE', key).ok
  local count = COUNT[kinds[key]]
  count = count and ask(count, key) or most
  size = size + KEY + (kinds[key] == 'string' and count / 64 or count)
  found[#found + 1] = key
end

local function add_hold(owner, number)
  add(hold .. owner .. ':rwlock_timeout:' .. number)
end

-- Redisson counts the holds of a reader in the hash: it has a key for each.
local function add_holds(lock, holders)
  local held = kinds[lock] == 'hash' and size <= most and ask('HGETALL', lock) or {}
  for i = 1, #held, 2 do
    for number = 1, math.min(tonumber(held[i + 1]) or 0, most + 1) do
      add_hold(held[i], number)
    end
  end
  local readers = kinds[holders] == 'zset' and size <= most and ask('ZRANGE', holders, 0, -1) or {}
  for i = 1, #readers do
    add_hold(readers[i], 1)
  end
end

if ask('EXISTS', nobody) then
  return { ok = 'STAYS' }
end
for i = 4, #ARGV do
  add(ARGV[i])
end
if hold ~= '' then
  add_holds(ARGV[4], ARGV[10])
end
return size > most and { ok = 'LARGE' } or found
