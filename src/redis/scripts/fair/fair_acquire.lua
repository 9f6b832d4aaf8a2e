-- Acquire the fair lock, or stand in line. The same owner id sent twice gets the same grant.
-- Returns {1, token, tokens, next}: see award() in fair_give.lua; {0, ms until the next probe or -1, 1 when a client of
-- Redisson's comes before}; {-1}: keys of another kind; {-2}: the gate is closed.
-- ARGV: owner, lease, block, mode (0 try, 1 line, 2 line and poll), listening, beat, keep, ticket, channel
local channel = ARGV[9]
--@include fair_base.lua
local own, want = ARGV[1], { lease = ARGV[2], block = tonumber(ARGV[3]), keep = ARGV[7] }

-- The usual cases come first, before the functions of the line are made. Nobody holds the lock and nobody waits.
local present = call('EXISTS', lock, queue, timeouts, about, gate, tombs)
if present == 0 and ask('STRLEN', fence) then
  local token = reserve(want.keep)
  hold(own, want.lease, token)
  return { 1, token, 1 }
end

local holders, known = ask('HKEYS', lock), ask('HMGET', about, own, '!', '?')
--@include fair_join.lua
local joined, crowded = join(ARGV, holders, known, present)
if joined and not crowded then
  return joined
end

--@include shared/buried.lua
--@include fair_give.lua
--@include fair_line.lua
--@include fair_stand.lua
if joined then
  sweep_records('s')
  return joined
end

-- Repeat own's grant. It writes, so that replicas confirm it.
local function again(told)
  call('PEXPIRE', lock, math.max(call('PTTL', lock), tonumber(want.lease)))
  keep_for(about, 2 * want.lease)
  local owner, token = (told or ''):match('^(%S+) (%d+)$')
  if owner == own then
    return { 1, tonumber(token), 1 }
  end
  return { 1, reserved(want.keep), 1 }
end

local function look(first, score, known, holder)
  local by_foreign = holder and not ours(holder)
  local place, foreign, left = nil, by_foreign and '1' or '0', holder and call('PTTL', lock) or 0
  if not first[1] and call('EXISTS', timeouts) == 1 then
    revive()
  end
  if ARGV[4] ~= '0' then
    place, foreign = stand(ARGV, first, score, known, by_foreign, left)
  end
  if holder then
    if known[3] then
      see_held()
    end
    if by_foreign or first[1] and not ours(first[1]) then
      head(own, false)
    end
    return { 0, place == true and -1 or left, tonumber(foreign) }
  end
  local who, token, tokens, next_ones = hand_on(own, want)
  if who == MORE then
    return { 0, 0, tonumber(foreign) }
  end
  if not who then
    token, tokens, next_ones = give(own, want, nil, true)
  end
  if not who or who == own then
    return { 1, token, tokens, next_ones }
  end
  if not ours(who) then
    return { 0, place == true and -1 or math.min(25 * (place or 2), 100), 1 }
  end
  return { 0, place == true and -1 or call('PTTL', lock), tonumber(foreign) }
end

local first, score = ask('LRANGE', queue, 0, SEEN - 1), tonumber(ask('ZSCORE', timeouts, own))
ask('STRLEN', fence)
if wrong then
  return { -1 }
end
for i = 1, #holders do
  if holders[i] == 'mode' then
    return { -1 }
  end
end
for i = 1, #holders do
  if holders[i] == own then
    return again(known[2])
  end
end
if call('EXISTS', gate) == 1 then
  leave(own)
  return { -2 }
end
if buried(tombs, own, own) then
  return { 0, -1, 0 }
end
return look(first, score, known, holders[1])
