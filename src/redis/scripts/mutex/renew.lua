-- Renew many locks of one slot. A lease is only ever made longer. PEXPIREAT works at maxmemory, too. The field "mode"
-- of a read-write lock is no hold.
-- KEYS: locks; ARGV: owner and lease of each, or the owners and one lease for all. Returns 1 where the owner still
-- holds, else 0.
--@include shared/held.lua
--@include shared/extend.lua
-- The usual answers are handled in the loop itself, because a server that keeps many locks spends most of its time
-- here. PEXPIRE takes longer: the server makes a PEXPIREAT of each.
local pcall, kept, count, ends, time = redis.pcall, {}, #KEYS, {}, redis.call('TIME')
local all = #ARGV == count + 1 and ARGV[count + 1]

local function end_of(lease)
  ends[lease] = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + lease)
  return ends[lease]
end

for i = 1, count do
  local key, owner, lease = KEYS[i], all and ARGV[i] or ARGV[2 * i - 1], all or ARGV[2 * i]
  kept[i] = 0
  if (pcall('HEXISTS', key, owner) == 1 or held(key, owner)) and owner ~= 'mode' then
    if pcall('PEXPIREAT', key, ends[lease] or end_of(lease), 'GT') ~= 1 then
      extend(key, lease)
    end
    kept[i] = 1
  end
end
return kept
