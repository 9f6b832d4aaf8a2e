-- Renew many locks of one slot. KEYS: locks; ARGV: owner and lease of each, or the owners and one lease for all. 1 where the
-- owner still holds, else 0. A lease is only ever made longer. PEXPIRE works at maxmemory too. The mode of a read-write lock is
-- nobody's hold.
--@include held.lua
--@include extend.lua
-- The usual answers are taken here: a server that keeps many locks spends most of its time on them.
local pcall, kept, count = redis.pcall, {}, #KEYS
local all = #ARGV == count + 1
for i = 1, count do
  local key, owner, lease = KEYS[i], all and ARGV[i] or ARGV[2 * i - 1], all and ARGV[count + 1] or ARGV[2 * i]
  kept[i] = 0
  if (pcall('HEXISTS', key, owner) == 1 or held(key, owner)) and owner ~= 'mode' then
    if pcall('PEXPIRE', key, lease, 'GT') ~= 1 then
      extend(key, lease)
    end
    kept[i] = 1
  end
end
return kept
