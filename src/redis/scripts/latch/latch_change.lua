-- Read or change a count-down latch. Returns {1, count}: done; {0, count}: not changed; {-1}: another kind of key. The
-- same id sent again gets the same answer. KEYS: lock, fence, gate, once. ARGV: what, number, id, channel
--   set    set the count to number, if there is no latch
--   down   count down by number, not below zero. At zero the latch opens and its key is deleted. Does nothing when
--          there is none
--   count  read what is left
--@include semaphore/sem_counter.lua
--@include semaphore/sem_once.lua
local what, number, id, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local function set()
  call('SET', lock, text(number))
  call('PUBLISH', channel, '1')
  return number
end

-- Counting down is a release, and must work on a full server. Such a server refuses a command that may take memory only
-- as the first write of a script.
local function down(left)
  if left > number then
    call('HDEL', once, '')
    return call('DECRBY', lock, text(number))
  end
  call('DEL', lock)
  if left > 0 then
    call('PUBLISH', channel, '0')
  end
  return 0
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
if there == (what == 'set') then
  return { what == 'set' and 0 or 1, left }
end
local value = what == 'set' and set() or down(left)
remember(id, 1, value, WHILE)
return { 1, value }
