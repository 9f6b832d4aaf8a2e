-- Whether owner is in the hash. A key of another type has no owners. Any other error ends the script.
local function held(key, owner)
  local said = redis.pcall('HEXISTS', key, owner)
  if type(said) == 'table' and not said.err:find('WRONGTYPE', 1, true) then
    return redis.call('HEXISTS', key, owner) == 1
  end
  return said == 1
end
