-- The permits of a semaphore: {1, value} done, {0, value} not changed, {-1} another kind of key. The same id sent again is
-- answered alike. KEYS: lock, fence, gate, taken, once. ARGV: what, number, id, channel
--   set    so many when there is no semaphore yet; the permits left
--   add    so many more, or fewer; the permits left. As with Redisson a TTL ends
--   drain  take all; how many. As with Redisson a TTL ends
--   count  the permits left
--@include sem_counter.lua
--@include sem_once.lua
local what, number, id, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- What was there before, or is there now, as each op answers; and whether anything changed.
local function change(left, there)
  if what == 'add' then
    left = left + number
    call('SET', lock, text(left))
    announce(channel, left, left)
    return left, true
  end
  if what == 'drain' then
    if there then
      call('SET', lock, '0')
    end
    return left, there
  end
  if there then
    return left, false
  end
  call('SET', lock, number)
  announce(channel, number, tonumber(number))
  return tonumber(number), true
end

local left, there = count()
if not left then
  return { -1 }
end
if what == 'count' then
  return { 1, left }
end
local told = recall(id)
if told then
  return told
end
local value, changed = change(left, there)
if changed then
  remember(id, 1, value, WHILE)
end
return { (changed or what ~= 'set') and 1 or 0, value }
