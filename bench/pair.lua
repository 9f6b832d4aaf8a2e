-- pair.lua URL SECONDS: the LuaJIT binding at work on a lock of its own. Prints "name value" lines, as the C programs do.
local ffi, dlock = require "ffi", require "dlock"
ffi.cdef [[typedef struct { long s, ns; } bench_time; int clock_gettime(int clock, bench_time *time);]]

local time = ffi.new "bench_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.ns) * 1e-9
end

local lock = assert(assert(dlock.open(arg[1])):lock("lua:" .. tostring({}):match "0x(%x+)"))
for _ = 1, 200 do assert(lock:acquire() and lock:release()) end
local waits, before = {}, now()
local limit = before + tonumber(arg[2])
while before < limit do
  assert(lock:acquire() and lock:release())
  local after = now()
  waits[#waits + 1], before = after - before, after
end
table.sort(waits)
print("per_s " .. #waits / tonumber(arg[2]))
print("p50 " .. waits[math.floor(#waits * 0.5) + 1] * 1e6)
print("p99 " .. waits[math.floor(#waits * 0.99) + 1] * 1e6)
