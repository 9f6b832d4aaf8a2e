-- The id in the hash that is heir, or an earlier try: an id of the same client with a lower number, down to first. Else
-- nil.
local function heir_of(lock, heir, first)
  local client, last, said = heir:sub(1, 36), tonumber(heir:sub(38)), redis.pcall('HKEYS', lock)
  for i = 1, said.err and 0 or #said do
    local number = tonumber(said[i]:match('^(%d+)$', 38))
    if said[i]:sub(1, 36) == client and number and number <= last and number >= tonumber(first) then
      return said[i]
    end
  end
end
