-- Before a script that grants: {-3, ms left} while nobody is granted anything, {-4, longest lease of the server} for clients
-- that go by another one.
local write = redis.call
--@include quiet.lua
if quiet then
  return quiet
end
