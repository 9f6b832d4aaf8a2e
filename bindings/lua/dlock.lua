--- Distributed locks on Redis, by libdlock: the binding for LuaJIT.
--
--     local dlock = require "dlock"
--     local client = assert(dlock.open("redis://localhost", {lease_ms = 10000}))
--     local lock = assert(client:lock("invoice:17"))
--     assert(lock:with({wait = 5}, function(lock) pay(17, lock:token()) end))
--     client:close()
--
-- Results. A call that fails returns nil and an error: a table with code and name of the status (-300, "UNREACHABLE"),
-- message, and retryable (the same call may succeed later). tostring gives the message. When somebody else has the lock
-- or the wait is over, acquire returns false and such an error.
--
-- Owners. Each coroutine, the main one too, is an owner of its own. It may acquire a lock again that it holds, and must
-- release it as often. owner = n in the arguments acts for another owner; numbers from 10^13 on are those of coroutines.
-- A coroutine that ends keeps its locks: use lock:with. That releases the lock, unless the host ends the coroutine
-- inside it, as ngx.exit does.
--
-- Waiting. Without a yield hook all requests to the server block the thread. With one, dlock.open(url, {yield = hook}),
-- only close blocks: hook(client, wait) is called until the answer has arrived, and lets other coroutines run, for
-- example with ngx.sleep(0.001). It may set wait.wake to a function that must not yield. client:dispatch(), or another
-- coroutine that waits, calls it once when the answer has arrived. dlock.ngx and dlock.luv are such hooks. An error in a
-- wake function or in on_event is raised by the next client:dispatch() or client:poll(), and never by a call that waits
-- for its own answer. Of several errors only the first is kept.
--
-- Times are seconds; no wait, or -1, means no limit. Tokens are text: printed as numbers they would lose digits. The
-- library is the file DLOCK_LIBRARY, or the one that the rock dlock-bundled brought, or libdlock.so.1; the first
-- dlock.open loads it. A Lua state and everything in it belong to one thread at a time. The garbage collector frees
-- memory only: release locks, and close clients.

local ffi = require "ffi"
local abi = require "dlock.cdef"

local dlock = {VERSION = "0.1.0", constants = abi.constants}
local K = abi.constants
local OK, SONAME, LARGEST, MAIN = K.DLOCK_OK, "libdlock.so.1", 2 ^ 53 - 1, 1e13
local BESIDE = "dlock.libdlock" -- in package.cpath: a file, not a module
local METRICS_ROOM = 32768
local C -- the library
local box, event_box, fields, int32, int64, size -- filled by the library; read before any other call

--- Constants that begin with prefix: numbers by the rest of the name in lower case, and the reverse.
local function group(prefix)
  local numbers, names = {}, {}
  for name, value in pairs(K) do
    if name:sub(1, #prefix) == prefix then
      name = name:sub(#prefix + 1):lower()
      numbers[name], names[value] = value, name
    end
  end
  return numbers, names
end

local kinds, stats = group("DLOCK_KIND_"), group("DLOCK_STAT_")
local states, types = select(2, group("DLOCK_STATE_")), select(2, group("DLOCK_EVENT_"))
local causes = select(2, group("DLOCK_CAUSE_"))
causes[K.DLOCK_CAUSE_NONE] = nil

-- ---- errors: raised within this file, returned to the user

local Error, Raised = {}, {}
Error.__index = Error
function Error.__tostring(err) return err.message end
function Error.__concat(left, right) return tostring(left) .. tostring(right) end

--- The error for a status. Without a text it has the message in the error box of the call.
local function error_of(status, text)
  local message = text or ffi.string(C.dlock_error_message(box))
  return setmetatable({
    code = status, name = ffi.string(C.dlock_status_name(status)), retryable = C.dlock_status_retryable(status) == 1,
    message = message ~= "" and message or ffi.string(C.dlock_status_text(status)),
  }, Error)
end

local function raise(err) error(setmetatable({err = err}, Raised)) end

--- True for OK, false for the expected status. Any other status is raised.
local function check(status, expected, text)
  if status ~= OK and status ~= expected then raise(error_of(status, text)) end
  return status == OK
end

--- INVALID_ARGUMENT, for arguments that the binding itself refuses.
local function refuse_unless(good, message, ...)
  if good then return end
  raise(error_of(K.DLOCK_INVALID_ARGUMENT, message:format(...)))
end

local function returned(good, ...)
  if good then return ... end
  local caught = ...
  if getmetatable(caught) == Raised then return nil, caught.err end
  error(caught, 0)
end

--- Make a public function of body: it returns nil and the error when body raises one of ours.
local function public(body)
  return function(...) return returned(pcall(body, ...)) end
end

-- ---- the library

local function open_library(path)
  if not pcall(ffi.typeof, "dlock_client") then -- once in a Lua state, even if this file is loaded again
    ffi.cdef(abi.cdef)
    ffi.cdef [[
      int dlock_lua_clock(int clock, long *time) __asm__("clock_gettime");
      int dlock_lua_pause(void *none, unsigned long count, int ms) __asm__("poll");
    ]]
  end
  local library = ffi.load(path)
  local major, minor = dlock.VERSION:match("(%d+)%.(%d+)")
  if library.dlock_version() < major * 65536 + minor * 256 then
    local found = ffi.string(library.dlock_version_string())
    error(("its version is %s, this binding needs %d.%d or later"):format(found, major, minor), 0)
  end
  for name in abi.cdef:gmatch("(dlock_[%w_]+)%(") do
    local _ = library[name] -- the error names the missing function
  end
  return library
end

local function load()
  local override = os.getenv("DLOCK_LIBRARY")
  override = override ~= "" and override or nil
  local path = override or package.searchpath(BESIDE, package.cpath) or SONAME
  local good, library = pcall(open_library, path)
  if not good then
    local err = tostring(library):gsub("^[^:]*%.lua:%d+: ", "")
    err = err:find(path, 1, true) and err or path .. ": " .. err
    local hint = override and "as DLOCK_LIBRARY says" or "DLOCK_LIBRARY is not set"
    raise(setmetatable({name = "LIBRARY", message = ("No usable libdlock (%s). Tried %s"):format(hint, err)}, Error))
  end
  int32, int64, size = ffi.new("int32_t[1]"), ffi.new("int64_t[1]"), ffi.new("size_t[1]")
  fields = ffi.new("int64_t[?]", K.DLOCK_FIELD_COUNT)
  box = ffi.gc(library.dlock_error_new(), library.dlock_error_free)
  event_box = ffi.gc(library.dlock_event_new(), library.dlock_event_free)
  C = library
end

-- ---- arguments and results

--- Whether value is nil itself: a NULL pointer is equal to nil.
local function absent(value) return type(value) == "nil" end

local function milliseconds(time)
  if absent(time) or time == -1 then return -1 end
  refuse_unless(type(time) == "number" and time >= 0, "A duration is a number of seconds, not %s.", tostring(time))
  return time > 1e10 and -1 or math.ceil(time * 1000)
end

--- A number of the library; nil for -1 (unknown).
local function known(value)
  value = tonumber(value)
  return value ~= -1 and value or nil
end

local function seconds(value)
  value = known(value)
  return value and value / 1000
end

local function token_of(value)
  value = known(value)
  return value and ("%.0f"):format(value)
end

local function whole(value, low)
  return type(value) == "number" and value >= low and value <= LARGEST and value % 1 == 0
end

local function amount(value)
  refuse_unless(whole(value, -LARGEST), "A whole number is needed.")
  return value
end

local owners, last_owner = setmetatable({}, {__mode = "k"}), MAIN -- of all coroutines but the main one

local function running()
  local co, main = coroutine.running()
  if not co or main then return MAIN end
  if not owners[co] then
    last_owner = last_owner + 1
    owners[co] = last_owner
  end
  return owners[co]
end

local Client, Lock, Transaction = {}, {}, {}
local OWNER, WAIT = {owner = true}, {owner = true, wait = true}
local TAG, SUBMIT = {owner = true, tag = true}, {owner = true, wait = true, tag = true}

--- The checked arguments of a call on a lock: lock, owner, wait in milliseconds, tag.
local function arguments(lock, given, accepted)
  refuse_unless(getmetatable(lock) == Lock, "The methods of a lock are called with a colon.")
  if absent(given) then return lock, lock.owner or running(), -1, 0 end
  refuse_unless(type(given) == "table", "Arguments are given by name, as in lock:acquire{wait = 5}.")
  for name in pairs(given) do
    refuse_unless(accepted[name], "There is no argument %s.", tostring(name))
  end
  local owner, tag = given.owner or lock.owner or running(), given.tag or 0
  refuse_unless(whole(owner, 0), "An owner is a whole number from 0 to 2^53 - 1.")
  refuse_unless(whole(tag, -LARGEST), "A tag is a whole number between -2^53 and 2^53.")
  return lock, owner, milliseconds(given.wait), tag
end

--- The handle of a lock and the owner of a call.
local function owned(lock, given)
  local _, owner = arguments(lock, given, OWNER)
  return lock.handle, owner
end

--- A set of options from a table, without the names in own.
local function option_set(values, own)
  refuse_unless(type(values) == "table" or absent(values), "Options are a table.")
  local set = ffi.gc(C.dlock_options_new(), C.dlock_options_free)
  for name, value in pairs(values or {}) do
    if not own[name] then
      local kind = type(value)
      local text = kind == "number" and value % 1 == 0 and ("%.0f"):format(value) or tostring(value)
      refuse_unless(type(name) == "string", "The name of an option is text, not %s.", tostring(name))
      refuse_unless(kind == "number" or kind == "boolean" or kind == "string", "The option %s is a %s.", name, kind)
      refuse_unless(not (name .. text):find("\0", 1, true), "There is a NUL in the option %s.", name)
      check(C.dlock_options_set(set, name, text, box))
    end
  end
  return set
end

-- ---- events

--- The event in the box as a table. seen: the result of an inspection.
local function unpack_event()
  C.dlock_event_unpack(event_box, fields, K.DLOCK_FIELD_COUNT, nil, nil)
  local type, status = tonumber(fields[K.DLOCK_FIELD_TYPE]), tonumber(fields[K.DLOCK_FIELD_STATUS])
  local text = ffi.string(C.dlock_event_text(event_box))
  local event = {
    type = types[type] or "unknown_" .. type, status = status, error = status ~= OK and error_of(status, text) or nil,
    tag = tonumber(fields[K.DLOCK_FIELD_TAG]), lock_id = known(fields[K.DLOCK_FIELD_LOCK_ID]),
    owner = known(fields[K.DLOCK_FIELD_OWNER]), token = token_of(fields[K.DLOCK_FIELD_TOKEN]), text = text,
    remaining = seconds(fields[K.DLOCK_FIELD_REMAINING_MS]), cause = causes[tonumber(fields[K.DLOCK_FIELD_CAUSE])],
    value = tonumber(fields[K.DLOCK_FIELD_VALUE]),
  }
  event.seen = {
    holder = event.text, token = event.token, remaining = event.remaining,
    held_for = seconds(fields[K.DLOCK_FIELD_HELD_FOR_MS]), waiters = known(fields[K.DLOCK_FIELD_WAITERS]),
    foreign = fields[K.DLOCK_FIELD_FOREIGN] == 1,
  }
  if not event.lock_id and event.value > 0 then -- the value of a key
    local buffer = ffi.new("uint8_t[?]", event.value)
    C.dlock_event_data(event_box, buffer, event.value, nil, nil)
    event.data = ffi.string(buffer, event.value)
  end
  return event
end

-- Requests of waiting coroutines have tags of their own: PRIVATE + number, below all tags of users. waits[number] is the
-- wait of a coroutine, until it takes the answer: {wins = the lock that it may win for owner, wake, event = the answer}.
-- alive[number] is a weak reference. It ends with the coroutine, or when the hook raises: a lock that is granted after
-- that, or whose answer was not taken, is released.
local PRIVATE, ROUND = -2LL ^ 62, 16
local ANSWER = {acquired = true, acquire_failed = true, released = true, release_failed = true, done = true}

--- Nobody will take this answer. If it has arrived, a granted lock is released; else the wait is cancelled, once.
local function abandon(client, number)
  local wait = client.waits[number]
  if wait.event then
    client.waits[number] = nil
    if wait.wins and wait.event.status == OK then
      C.dlock_lock_submit_release(wait.wins.handle, wait.owner, PRIVATE, nil)
    end
  elseif wait.wins and not wait.cancelled then
    wait.cancelled = true
    C.dlock_lock_cancel(wait.wins.handle, wait.owner, nil)
  end
end

--- Abandon the waits of coroutines that no longer exist. Each run of the garbage collector removes alive[0]: while it is
-- there, nothing has changed.
local function sweep(client)
  if client.alive[0] then return end
  client.alive[0] = {}
  for number in pairs(client.waits) do
    if not client.alive[number] then abandon(client, number) end
  end
end

--- Call a function for another coroutine. Its error is kept for client:dispatch() or client:poll().
local function call_apart(client, fn, ...)
  local good, err = pcall(fn, ...)
  if not good then client.kept = client.kept or {err = err} end
end

local function raise_kept(client)
  local kept = client.kept
  client.kept = nil
  if kept then error(kept.err, 0) end
end

--- The oldest event in the queue; nil when there is none.
local function take(client)
  local event = client.queue[client.oldest]
  if event then client.queue[client.oldest], client.oldest = nil, client.oldest + 1 end
  return event
end

--- Queue an event for poll, which may never be called. When the queue has event_limit events, the oldest is dropped.
-- Answers to submit are never dropped: while the oldest event is one, the new event is dropped, unless it is one too.
local function enqueue(client, event)
  local full = client.newest - client.oldest + 1 >= client.limit
  local stays = full and ANSWER[client.queue[client.oldest].type]
  if stays and not ANSWER[event.type] then return end
  if full and not stays then take(client) end
  client.newest = client.newest + 1
  client.queue[client.newest] = event
end

--- Pass the event in the box to the coroutine that waits for it, to on_event, or to the queue.
local function deliver(client)
  local event = unpack_event()
  local private = event.tag < -LARGEST
  if private and ANSWER[event.type] then
    local number = tonumber(fields[K.DLOCK_FIELD_TAG] - PRIVATE)
    local wait = client.waits[number]
    if not wait then return end
    wait.event = event
    if not client.alive[number] then return abandon(client, number) end
    client.wakes[#client.wakes + 1] = wait.wake
    return
  end
  event.tag, event.seen, event.data = private and 0 or event.tag, nil, nil
  if client.on_event then return call_apart(client, client.on_event, event) end
  enqueue(client, event)
end

--- Call the wake functions that are due. Not recursive: one call inside another could nest without limit.
local function wake(client)
  if client.waking then return end
  client.waking = true
  while client.wakes[1] do call_apart(client, table.remove(client.wakes, 1)) end
  client.waking = false
end

--- Deliver all events, and wake the coroutines that have an answer. Returns the status that ended the events.
local function dispatch(client)
  local status
  repeat
    status = C.dlock_client_next(client.handle, 0, event_box, nil)
    if status == OK then deliver(client) end
  until status ~= OK
  sweep(client)
  wake(client)
  return status
end

-- ---- waiting

local function await(client, wait, pauses)
  local status = pauses and K.DLOCK_NO_EVENT or dispatch(client)
  while not wait.event do
    check(status, K.DLOCK_NO_EVENT, "")
    client.yield(client, wait)
    wait.wake = nil
    status = dispatch(client)
  end
end

--- Make a request and run the hook until the answer has arrived: its status, text and event. pending: the status that
-- means that an event will answer. wins and owner: the lock that the request may win, and its owner. pauses: run the hook
-- even if the answer is there at once, so that other coroutines can run; each ROUND-th request does so anyway.
local function submit(client, request, pending, wins, owner, pauses)
  local number = client.last + 1
  client.last = number
  local status = request(PRIVATE + number)
  if status ~= pending then return status end
  local wait, anchor = {wins = wins, owner = owner}, {}
  client.waits[number], client.alive[number] = wait, anchor
  local good, err = pcall(await, client, wait, pauses or number % ROUND == 0)
  anchor.taken = true -- uses anchor, so that it lives as long as this coroutine waits
  client.alive[number] = nil
  if not good then
    abandon(client, number)
    dispatch(client) -- it may have been granted already
    error(err, 0)
  end
  client.waits[number] = nil
  return wait.event.status, wait.event.text, wait.event
end

--- Call dlock_<group>_<verb>, which blocks and writes to out if there is one; under a hook, submit it. True, or false for
-- the expected status; and the event, or a table with the same fields.
local function execute(client, call, out, expected, wins, owner, ...)
  local group, verb = call:match "^(%l+)_(.*)"
  local given, count = {...}, select("#", ...)
  given[count + 1], given[count + 2] = out or box, box
  if client.yield then
    local status, text, event = submit(client, function(tag)
      given[count + 1], given[count + 2] = tag, box
      return C["dlock_" .. group .. "_submit_" .. verb](unpack(given, 1, count + 2))
    end, OK, wins, owner)
    return check(status, expected, text), event
  end
  local good = check(C["dlock_" .. call](unpack(given, 1, out and count + 2 or count + 1)), expected)
  if out == event_box then return good, unpack_event() end
  return good, {value = tonumber(int64[0]), token = token_of(int64[0])}
end

--- The time of CLOCK_MONOTONIC: seconds and nanoseconds.
local function clock()
  local time = ffi.new("long[2]")
  ffi.C.dlock_lua_clock(1, time)
  return tonumber(time[0]), tonumber(time[1])
end

local function now_ms()
  local s, ns = clock()
  return s * 1000 + ns / 1e6
end

--- Acquire, blocking. The library returns each second and after signals, so that debug hooks run, as the one of Ctrl-C.
local function block(lock, owner, ms)
  local limit = ms > 0 and now_ms() + ms
  while true do
    local status = C.dlock_lock_acquire(lock.handle, owner, ms, int64, box)
    if status ~= K.DLOCK_INTERRUPTED then return status end
    ms = limit and math.max(0, math.ceil(limit - now_ms())) or ms
  end
end
jit.off(block) -- compiled code runs no debug hooks

local function acquire(lock, owner, ms)
  local good, status, text = true, nil, nil
  if lock.client.yield then
    status, text = submit(lock.client, function(tag)
      return C.dlock_lock_begin_acquire(lock.handle, owner, ms, tag, nil, box)
    end, K.DLOCK_WOULD_BLOCK, lock, owner, true)
  else
    int64[0] = 0 -- not 0 from the moment of the grant
    good, status = pcall(block, lock, owner, ms)
  end
  if not good then
    if int64[0] ~= 0 then
      C.dlock_lock_submit_release(lock.handle, owner, PRIVATE, nil)
    else
      C.dlock_lock_cancel(lock.handle, owner, nil)
    end
    error(status, 0)
  end
  if status == K.DLOCK_BUSY or status == K.DLOCK_TIMED_OUT then return false, error_of(status, text) end
  return check(status, nil, text)
end

local function release(lock, owner)
  local status, text
  if lock.client.yield then
    status, text = submit(lock.client, function(tag)
      return C.dlock_lock_begin_release(lock.handle, owner, tag, box)
    end, K.DLOCK_WOULD_BLOCK, nil, nil, true)
  else
    status = C.dlock_lock_release(lock.handle, owner, box)
  end
  return check(status, nil, text)
end

-- ---- client

--- A client for a URL. options: those of the library, yield, on_event. Does not connect yet, never blocks.
dlock.open = public(function(url, options)
  if not C then load() end
  refuse_unless(type(url) == "string" and not url:find("\0", 1, true), "A URL is text without NULs.")
  local set, out = option_set(options, {yield = true, on_event = true}), ffi.new("dlock_client *[1]")
  local own = options or {}
  refuse_unless(type(own.yield) == "function" or absent(own.yield), "yield is a function.")
  refuse_unless(type(own.on_event) == "function" or absent(own.on_event), "on_event is a function.")
  if own.interruptible == nil and not own.yield then
    check(C.dlock_options_set(set, "interruptible", "true", box))
  end
  check(C.dlock_client_open(url, set, out, box))
  return setmetatable({
    handle = ffi.gc(out[0], C.dlock_client_free), yield = own.yield, on_event = own.on_event,
    queue = {}, oldest = 1, newest = 0, limit = tonumber(own.event_limit) or 4096,
    last = 0, waits = {}, wakes = {}, waking = false, alive = setmetatable({}, {__mode = "v"}),
  }, Client)
end)

local function handle_of(client)
  refuse_unless(getmetatable(client) == Client, "The methods of a client are called with a colon.")
  return client.handle
end

local function new_lock(client, handle, name, kind, owner)
  refuse_unless(whole(owner, 0) or absent(owner), "An owner is a whole number from 0 to 2^53 - 1.")
  local lock = {client = client, name = name, kind = kind, owner = owner, handle = ffi.gc(handle, C.dlock_lock_free)}
  lock.id = tonumber(C.dlock_lock_id(handle))
  return setmetatable(lock, Lock)
end

--- A lock. options: those of the library, which override the client's; kind ("mutex"); owner, for all calls on the lock.
function Client:lock(name, options)
  local client, out = handle_of(self), ffi.new("dlock_lock *[1]")
  local set, own = option_set(options, {kind = true, owner = true}), options or {}
  local kind = own.kind or "mutex"
  refuse_unless(type(name) == "string", "The name of a lock is text.")
  refuse_unless(kinds[kind], "There is no kind of lock called %s.", tostring(kind))
  check(C.dlock_lock_new(client, kinds[kind], name, #name, set, out, box))
  return new_lock(self, out[0], name, kind, own.owner)
end

--- Several locks of this client as one, {first, second, ...}: all or none. options.owner: for all calls on it.
function Client:multi(locks, options)
  local count, names = type(locks) == "table" and #locks or 0, {}
  local members, out = ffi.new("dlock_lock *[?]", count + 1), ffi.new("dlock_lock *[1]")
  handle_of(self)
  for place = 1, count do
    refuse_unless(getmetatable(locks[place]) == Lock, "A multi-lock is made of locks.")
    members[place - 1], names[place] = locks[place].handle, locks[place].name
  end
  refuse_unless(absent(options) or type(options) == "table", "Options are a table.")
  for name in pairs(options or {}) do
    refuse_unless(name == "owner", "A multi-lock has no option %s.", tostring(name))
  end
  check(C.dlock_lock_new_multi(self.handle, members, count, out, box))
  return new_lock(self, out[0], table.concat(names, "+"), "multi", options and options.owner)
end

--- Release all locks, end all waits with CLOSED, and stop. Blocks up to timeout seconds (5).
function Client:close(timeout)
  return check(C.dlock_client_close(handle_of(self), milliseconds(timeout or 5), box))
end

--- The next event that no coroutine waits for; nil when there was none within timeout seconds (0), or when a signal
-- ended the wait. Blocks meanwhile.
function Client:poll(timeout)
  local handle, ms, began, status = handle_of(self), milliseconds(timeout or 0), now_ms(), nil
  repeat
    raise_kept(self)
    local event = take(self)
    if event then return event end
    local left = ms < 0 and ms or math.max(0, math.ceil(began + ms - now_ms()))
    status = C.dlock_client_next(handle, left, event_box, box)
    if status == OK then deliver(self) end
    wake(self)
  until status ~= OK
  check(status ~= K.DLOCK_INTERRUPTED and status or OK, K.DLOCK_NO_EVENT)
end

--- Deliver all events: to waiting coroutines through their wake functions, to on_event, or to poll. Never blocks.
function Client:dispatch()
  handle_of(self)
  local status = dispatch(self)
  raise_kept(self)
  check(status, K.DLOCK_NO_EVENT, "")
  return true
end

--- Whether coroutines wait for answers, or ended while they waited: then call dispatch.
function Client:waiting()
  handle_of(self)
  return next(self.waits) ~= nil
end

--- A descriptor that is readable while events wait in the library. Never read from it or close it.
function Client:fd()
  check(C.dlock_client_fd(handle_of(self), int32, box))
  return int32[0]
end

--- End one wait in poll, the current one or the next.
function Client:wake() return check(C.dlock_client_wake(handle_of(self), box)) end

--- Check whether the server is fit to keep locks: a list of {name = "EVICTION", danger = true, text = "..."}.
function Client:check(timeout)
  execute(self, "client_check", size, nil, nil, nil, handle_of(self), milliseconds(timeout))
  local found = {}
  while C.dlock_client_finding(handle_of(self), #found, event_box, nil) == K.DLOCK_OK do
    C.dlock_event_unpack(event_box, fields, K.DLOCK_FIELD_COUNT, nil, nil)
    found[#found + 1] = {
      name = ffi.string(C.dlock_finding_name(tonumber(fields[K.DLOCK_FIELD_VALUE]))),
      danger = fields[K.DLOCK_FIELD_CAUSE] == K.DLOCK_SEVERITY_DANGER,
      text = ffi.string(C.dlock_event_text(event_box)),
    }
  end
  return found
end

--- Tell the server that it remembers every lock, which ends a quarantine. UNSUPPORTED without quarantine_ms.
function Client:provision(timeout)
  return (execute(self, "client_provision", nil, nil, nil, nil, handle_of(self), milliseconds(timeout)))
end

--- Check that the server answers.
function Client:ping(timeout)
  return (execute(self, "client_ping", nil, nil, nil, nil, handle_of(self), milliseconds(timeout)))
end

--- Make something go wrong, for a test: only a client of memory: does it. The words are those of dlock_client_fault in
-- the manual. seconds: 0 without it; math.huge: until "heal".
function Client:fault(what, name, seconds)
  local given, value = name or "", seconds or 0
  refuse_unless(type(what) == "string" and type(given) == "string" and type(value) == "number",
    "A fault is a word, the name of a lock or none, and a number of seconds.")
  value = value == math.huge and -1 or math.floor(value * 1000 + 0.5)
  return check(C.dlock_client_fault(handle_of(self), what, given, #given, value, box))
end

--- The counters of the client, by name: acquired, lost, ...
function Client:stats()
  local values, result = ffi.new("int64_t[?]", K.DLOCK_STAT_COUNT), {}
  check(C.dlock_client_stats(handle_of(self), values, K.DLOCK_STAT_COUNT, size, box))
  for name, place in pairs(stats) do
    if place < K.DLOCK_STAT_COUNT and place < size[0] then result[name] = tonumber(values[place]) end
  end
  return result
end

--- The counters and histograms of the client as OpenMetrics text. Never blocks.
function Client:metrics()
  local room = METRICS_ROOM
  repeat
    local buffer = ffi.new("char[?]", room)
    local status = C.dlock_client_metrics(handle_of(self), buffer, room, size, box)
    if status == OK then return ffi.string(buffer, size[0]) end
    room = tonumber(size[0]) + METRICS_ROOM
    if status ~= K.DLOCK_BUFFER_TOO_SMALL then check(status) end
  until false
end

-- ---- lock: given may have owner in all methods, and other fields as described

--- Acquire; wait up to given.wait seconds. True; false and an error when somebody else has the lock.
function Lock:acquire(given) return acquire(arguments(self, given, WAIT)) end

--- Acquire without waiting for other holders.
function Lock:try(given) return acquire(self, select(2, owned(self, given)), 0) end

--- Release one level. The last one passes the lock to the next waiter.
function Lock:release(given) return release(self, select(2, owned(self, given))) end

--- Begin to acquire, with given.wait: one acquired or acquire_failed event with given.tag follows. Never blocks.
function Lock:submit(given)
  local _, owner, ms, tag = arguments(self, given, SUBMIT)
  return check(C.dlock_lock_submit_acquire(self.handle, owner, ms, tag, box))
end

--- Begin to release: one released or release_failed event with given.tag follows. Never blocks.
function Lock:submit_release(given)
  local _, owner, _, tag = arguments(self, given, TAG)
  return check(C.dlock_lock_submit_release(self.handle, owner, tag, box))
end

--- End an owner's wait. True; false when the owner does not wait.
function Lock:cancel(given)
  local handle, owner = owned(self, given)
  return check(C.dlock_lock_cancel(handle, owner, box), K.DLOCK_NOT_HELD)
end

--- The state for the owner at this instant: "none", "waiting", "held", "at_risk" or "lost".
function Lock:state(given)
  local handle, owner = owned(self, given)
  check(C.dlock_lock_state(handle, owner, int32, box))
  return states[int32[0]] or "unknown_" .. int32[0]
end

local function number_of(lock, given, call)
  local handle, owner = owned(lock, given)
  check(C[call](handle, owner, int64, box))
  return tonumber(int64[0])
end

--- The fencing token of the owner's hold, as text.
function Lock:token(given) return token_of(number_of(self, given, "dlock_lock_token")) end

--- The owner's levels of re-entry.
function Lock:hold_count(given) return number_of(self, given, "dlock_lock_hold_count") end

--- For how many seconds the hold is valid without another renewal; math.huge for a plain semaphore.
function Lock:remaining(given) return seconds(number_of(self, given, "dlock_lock_remaining_ms")) or math.huge end

--- Set the lease: the server keeps the lock for lease seconds from now and from each later renewal.
function Lock:extend(lease, given)
  local handle, owner = owned(self, given)
  return (execute(self.client, "lock_extend", nil, nil, nil, nil, handle, owner, milliseconds(lease)))
end

--- The state at the server: holder (its id on the wire, "" when free), held_for, remaining, token, waiters, foreign.
function Lock:inspect()
  local handle = owned(self)
  local _, event = execute(self.client, "lock_inspect", event_box, nil, nil, nil, handle)
  return event.seen
end

--- Give the grant away: a string for adopt_grant in another process, a secret that works once.
--- It makes one round trip. The lock is then not held here; after an error it is held as before.
function Lock:export_grant(given)
  local handle, owner = owned(self, given)
  local room = 512 + #self.name
  local buffer = ffi.new("uint8_t[?]", room)
  check(C.dlock_lock_export_grant(handle, owner, buffer, room, size, box))
  return ffi.string(buffer, size[0])
end

--- Take over an exported grant of this lock. Its token; LOST after its lease, or when somebody else has adopted it.
function Lock:adopt_grant(grant, given)
  local handle, owner = owned(self, given)
  refuse_unless(type(grant) == "string", "A grant is the text from export_grant.")
  local _, event = execute(self.client, "lock_adopt_grant", int64, nil, self, owner, handle, owner, grant, #grant)
  return event.token
end

local function finish(lock, owner, good, ...)
  local released, err = pcall(release, lock, owner)
  if not good then error((...), 0) end
  if not released then error(err, 0) end
  return true, ...
end

local function with(lock, given, fn, ...)
  local _, owner, ms = arguments(lock, given, WAIT)
  refuse_unless(type(fn) == "function", "A function is needed, as in lock:with({wait = 5}, fn).")
  local good, err = acquire(lock, owner, ms)
  if not good then return good, err end
  return finish(lock, owner, pcall(fn, lock, ...))
end

--- lock:with([given,] fn, ...): acquire, call fn(lock, ...), and release in any case. True and the results of fn. When
-- acquire fails, its results, and fn is not called. nil and an error when the lock was lost meanwhile. An error in fn is
-- raised again.
function Lock:with(given, ...)
  if type(given) == "function" then return with(self, nil, given, ...) end
  return with(self, given, ...)
end

--- A method of a lock. takes converts its argument to a number of the library; returns: the result is a number. The
-- status no gives false.
local function verb(call, takes, returns, no)
  return function(self, value)
    local handle = owned(self)
    local out, given = returns and int64, takes and {takes(value)} or {}
    local good, event = execute(self.client, call, out, no, nil, nil, handle, unpack(given))
    return good and (not returns or event.value)
  end
end

Lock.force_release = verb("lock_force_release", nil, false, K.DLOCK_NOT_HELD) -- from any holder; false: it was free
Lock.close_gate = verb("lock_close_gate", milliseconds) -- ends and refuses waits with GATE_CLOSED, for so many seconds
Lock.open_gate = verb("lock_open_gate", nil, false, K.DLOCK_UNCHANGED) -- false: it was open

Lock.set_permits = verb("semaphore_set", amount, false, K.DLOCK_UNCHANGED) -- creates it; false: it exists
Lock.add_permits = verb("semaphore_add", amount, true) -- negative: removes; returns how many are free
Lock.drain_permits = verb("semaphore_drain", nil, true) -- removes all that are free; returns how many
Lock.reclaim_permits = verb("semaphore_reclaim", milliseconds, true) -- not renewed for lease_ms and this long
Lock.available_permits = verb("semaphore_available", nil, true)
Lock.set_count = verb("latch_set", amount, false, K.DLOCK_UNCHANGED) -- of an open latch; false: it has one
Lock.count_down = verb("latch_count_down", amount, true) -- returns the new count
Lock.count = verb("latch_count", nil, true)

--- The id of one permit of the owner's latest acquisition; index counts from 0.
function Lock:permit_id(index, given)
  local handle, owner = owned(self, given)
  local buffer = ffi.new("char[64]")
  refuse_unless(whole(index, 0), "An index is a whole number from 0.")
  check(C.dlock_semaphore_permit(handle, owner, index, buffer, 64, box))
  return ffi.string(buffer)
end

-- ---- transactions

--- The handle of a transaction and a key with its size.
local function keyed(txn, key)
  refuse_unless(getmetatable(txn) == Transaction, "The methods of a transaction are called with a colon.")
  refuse_unless(txn.handle, "A transaction is over with its function.")
  refuse_unless(type(key) == "string", "A key is text.")
  return txn.handle, key, #key
end

local function watch(txn, key)
  local handle, name, length = keyed(txn, key)
  return (execute(txn.client, "txn_watch", nil, nil, nil, nil, handle, name, length))
end

local attempt

--- Pause before the next attempt: for a number of milliseconds, or under a hook for as many round trips.
local function pause(client, number)
  local turns = tonumber(C.dlock_txn_pause_ms(number))
  if not client.yield then return ffi.C.dlock_lua_pause(nil, 0, turns) end
  turns = math.min(turns, 32)
  local function ping(tag) return C.dlock_client_submit_ping(client.handle, -1, tag, nil) end
  while turns > 0 and submit(client, ping, OK, nil, nil, true) == OK do turns = turns - 1 end
end

local function commit(txn, keys, fn, number, ...)
  local good, event = execute(txn.client, "txn_commit", nil, K.DLOCK_CONFLICT, nil, nil, txn.handle)
  if good then return true, ... end
  if number >= txn.attempts then return false, error_of(K.DLOCK_CONFLICT, event.text) end
  pause(txn.client, number)
  return attempt(txn, keys, fn, number + 1)
end

function attempt(txn, keys, fn, number)
  for _, key in ipairs(keys) do watch(txn, key) end
  return commit(txn, keys, fn, number, fn(txn))
end

--- The end of a transaction. After an error under a hook a request may be under way, so the rollback is submitted.
local function over(txn, good, ...)
  local handle = txn.handle
  txn.handle = nil
  if good then return ... end
  if txn.client.yield then C.dlock_txn_submit_rollback(handle, PRIVATE, nil) else C.dlock_txn_rollback(handle, nil) end
  error((...), 0)
end

--- Read and write several keys together, without a lock: watch keys, call fn(transaction), do all writes at once. True
-- and the results of fn. It is tried again when a watched key was changed meanwhile; false and a CONFLICT error after so
-- many attempts (50). An error in fn is raised again, and nothing is written. Keys are used as given, without namespace.
function Client:transaction(keys, fn, attempts)
  local client, out = handle_of(self), ffi.new("dlock_txn *[1]")
  refuse_unless(type(keys) == "table", "The keys to watch are a table.")
  refuse_unless(type(fn) == "function", "A function is needed, as in client:transaction({'stock'}, fn).")
  refuse_unless(absent(attempts) or whole(attempts, 1), "attempts is a whole number from 1.")
  check(C.dlock_txn_new(client, out, box))
  local handle = ffi.gc(out[0], C.dlock_txn_free)
  local txn = setmetatable({client = self, handle = handle, attempts = attempts or 50}, Transaction)
  return over(txn, pcall(attempt, txn, keys, fn, 1))
end

--- Watch another key; do this before you read it.
Transaction.watch = watch

--- The value of a key; nil without an error when there is none.
function Transaction:get(key)
  local handle, name, length = keyed(self, key)
  if self.client.yield then
    local good, event = execute(self.client, "txn_get", nil, K.DLOCK_NOT_FOUND, nil, nil, handle, name, length)
    if good then return event.data or "" end
    return
  end
  local room, status = 1024, nil
  repeat
    local buffer = ffi.new("uint8_t[?]", room)
    status = C.dlock_txn_get(handle, name, length, buffer, room, size, box)
    if status == OK then return ffi.string(buffer, size[0]) end
    room = tonumber(size[0])
  until status ~= K.DLOCK_BUFFER_TOO_SMALL
  check(status, K.DLOCK_NOT_FOUND)
end

--- Queue a write: set a key, which expires after ttl seconds, or never.
function Transaction:set(key, value, ttl)
  local handle, name, length = keyed(self, key)
  refuse_unless(type(value) == "string", "A value is text.")
  return check(C.dlock_txn_set(handle, name, length, value, #value, milliseconds(ttl), box))
end

--- Queue a write: add by (1) to the decimal number in a key.
function Transaction:incr(key, by)
  local handle, name, length = keyed(self, key)
  return check(C.dlock_txn_incr(handle, name, length, absent(by) and 1 or amount(by), box))
end

--- Queue a write: delete a key.
function Transaction:delete(key)
  local handle, name, length = keyed(self, key)
  return check(C.dlock_txn_delete(handle, name, length, box))
end

for _, class in ipairs {Client, Lock, Transaction} do
  class.__index = {}
  for name, body in pairs(class) do
    if type(body) == "function" then class.__index[name] = public(body) end
  end
end

--- The version of the library, as text. dlock.VERSION is that of the binding.
dlock.version = public(function()
  if not C then load() end
  return ffi.string(C.dlock_version_string())
end)

return dlock
