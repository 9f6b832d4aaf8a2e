-- Acquire several mutexes of one slot, all or none. The same owner ids sent twice get the same grants.
-- Returns {1, token and number of tokens of each}; or a code and the index of the first mutex it is about: {0, index}:
-- it is taken or has others in line; {-1, index}: it is another kind of key; {-2, index}: its gate is closed.
-- KEYS: lock, fence, line, about, gate of each; ARGV: keep, then owner, lease, block of each
--@include shared/tokens.lua
local call, keep = redis.call, ARGV[1]
local count = #KEYS / 5
--@include shared/buried.lua

local function state(i)
  local lock, line, gate = KEYS[5 * i - 4], KEYS[5 * i - 2], KEYS[5 * i]
  call('STRLEN', KEYS[5 * i - 3]) -- a counter of another type is an error before anything is written
  local type = call('TYPE', lock).ok
  if type == 'none' then
    if call('EXISTS', gate) == 1 then
      return -2
    end
    return call('EXISTS', line) == 0 and not buried(KEYS[5 * i - 1], ARGV[3 * i - 1]) and 1 or 0
  elseif type ~= 'hash' or call('HEXISTS', lock, 'mode') == 1 then
    return -1
  end
  return call('HEXISTS', lock, ARGV[3 * i - 1])
end

local time = call('TIME')
local micros = time[1] * 1000000 + time[2]

local function grant(i)
  local lock, fence = KEYS[5 * i - 4], KEYS[5 * i - 3]
  local owner, lease, block = ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  if call('EXISTS', lock) == 1 then
    call('PEXPIRE', lock, math.max(call('PTTL', lock) + 1, tonumber(lease))) -- a write, for replicas to confirm
    return tonumber(call('GET', fence)) or (tokens(fence, micros, 1, keep)), 1 -- of its tokens the last
  end
  local token, few = tokens(fence, micros, block, keep)
  call('HSET', lock, owner, '1')
  call('PEXPIRE', lock, lease)
  return token, few or block
end

for i = 1, count do
  local now = state(i)
  if now ~= 1 then
    return { now, i }
  end
end
local granted = { 1 }
for i = 1, count do
  granted[2 * i], granted[2 * i + 1] = grant(i)
end
return granted
