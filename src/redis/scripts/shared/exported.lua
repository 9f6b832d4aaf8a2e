-- The offer of a hold, ours, in about: EXPORT -> "owner attempt token lease sum". Whoever presents the proof, of which sum
-- is the hash, gets what owner holds. So nobody who can read the key can adopt. A lock has one offer at most, and that of an
-- owner that does not hold any more offers nothing.
local EXPORT = 'dlock_export'

-- What is offered of owner: sum, token, lease, attempt; nil when nothing is.
local function exported(about, owner)
  local said = redis.call('HGET', about, EXPORT) or ''
  local of, attempt, token, lease, sum = said:match('^(%S+) (%d+) (%d+) (%d+) (%x+)$')
  if of == owner then
    return sum, tonumber(token), tonumber(lease), tonumber(attempt)
  end
end

-- The offer stays for as long as the hold may.
local function keep_offer(about, lock)
  local left = redis.call('PTTL', lock)
  if redis.call('PTTL', about) < left then
    redis.call('PEXPIRE', about, left)
  end
end
