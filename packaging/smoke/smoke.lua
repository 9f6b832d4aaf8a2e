-- What smoke.sh asks of the Lua binding.
local dlock = require "dlock"

local client = assert(dlock.open(os.getenv "DLOCK_URL", {lease_ms = 1500}))
local other = assert(dlock.open(os.getenv "DLOCK_URL"))
local lock, theirs = assert(client:lock "smoke-lua"), assert(other:lock "smoke-lua")
assert(lock:acquire{wait = 5})
local first = lock:token()
assert(not theirs:try())
assert(theirs:force_release())
local lost = assert(client:poll(30))
assert(lost.type == "lost" and lock:state() == "lost", lost.type)
assert(lock:acquire{wait = 5})
assert(lock:token() > first)
assert(lock:release())
assert(theirs:acquire{wait = 5})
assert(client:close())
assert(other:close())
print("lua:", dlock.VERSION)
