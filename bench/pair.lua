-- pair.lua URL SECONDS: run the LuaJIT binding with its own lock. Prints "name value" lines, as the C programs do.
local ffi, dlock = require "ffi", require "dlock"
ffi.cdef [[typedef struct { long s, ns; } bench_time; int clock_gettime(int clock, bench_time *time);]]

local time = ffi.new "bench_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.ns) * 1e-9
end

local lock = assert(assert(dlock.open(arg[1])):lock("lua:" .. tostring({}):match "0x(%x+)"))
for _ = 1, 200 do assert(lock:acquire() and lock:release()) end
local waits, count, before, after = {}, 0, now(), 0
local limit = before + tonumber(arg[2])
repeat
  before = now()
  assert(lock:acquire() and lock:release())
  after = now()
  count = count + 1
  waits[count] = after - before
until after > limit
table.sort(waits)
print("per_s " .. count / tonumber(arg[2]))
print("p50 " .. waits[math.floor(count * 0.5) + 1] * 1e6)
print("p99 " .. waits[math.floor(count * 0.99) + 1] * 1e6)
