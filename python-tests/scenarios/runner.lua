--- The LuaJIT runner of the scenario table: runner.lua calls|coroutines. README.md in this folder lists the lines that it
-- answers.
--
-- "calls" waits in blocking calls, and submits where a scenario begins a wait; "coroutines" opens its clients with a yield
-- hook and waits in coroutines.

local ffi, dlock = require "ffi", require "dlock"

local IN_COROUTINES, PATIENCE = arg[1] == "coroutines", 20
local CAUSES = {expired = "EXPIRED", taken = "TAKEN", max_hold = "MAX_HOLD", closed = "CLOSED"}
local ANSWER = {acquired = true, acquire_failed = true, released = true, release_failed = true}
local things, last_tag = {}, 0

ffi.cdef [[
  struct scenario_pollfd { int fd; short events, revents; };
  struct scenario_address { unsigned short family; char path[108]; };
  int poll(struct scenario_pollfd *, unsigned long, int);
  int socket(int, int, int);
  int connect(int, const struct scenario_address *, unsigned);
  long send(int, const char *, size_t, int);
  long recv(int, char *, size_t, int);
  int close(int);
]]

-- ---- answers

--- "OK" and what the call answered, if that is to be said under a name; otherwise is the status for false.
local function said(value, err, name, otherwise)
  if value == nil or (value == false and err) then return err.name end
  if value == false then return otherwise end
  return name and ("OK %s=%s"):format(name, value) or "OK"
end

--- The answer to an acquisition: true, or false or nil and an error. token: its token as text; a latch has none.
local function granted(good, err, token)
  if not good then return err.name end
  return token and "OK token=" .. token or "OK"
end

local function acquired(lock, owner, good, err)
  return granted(good, err, good and lock.kind ~= "latch" and lock.handle:token {owner = owner})
end

-- ---- coroutines

--- Let the coroutines of all clients run until something has come.
local function pump(client)
  local wait = ffi.new("struct scenario_pollfd", {client:fd(), 1, 0})
  ffi.C.poll(wait, 1, 1000)
  for _, thing in pairs(things) do
    if thing.client == nil and thing.dispatch then thing.dispatch() end
  end
end

local stepping = {} -- coroutines of transactions: each step of one ends before the next line is read

local function hook(client, wait)
  local co, main = coroutine.running()
  if not co or main or stepping[co] then return pump(client) end
  wait.wake = function() assert(coroutine.resume(co)) end
  coroutine.yield()
end

-- ---- arguments

local function decode(word)
  if word == "%" then return "" end
  return (word:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

local function options(first, ...)
  local set = {}
  for _, word in ipairs {select(first, ...)} do
    local name, value = word:match "^([^=]*)=(.*)$"
    set[name] = value
  end
  return set
end

--- A wait or a lease. What is below -1 is for the binding to refuse.
local function seconds(ms)
  return ms == "-1" and -1 or tonumber(ms) / 1000
end

--- The first wanted event of a client that is no answer to a coroutine.
local function next_of(client, wanted)
  local place = 1
  while true do
    local event = client.seen[place]
    if not event then
      event = client.handle:poll(PATIENCE)
      if not event then return nil end
      client.seen[place] = event
    end
    if wanted(event) then return table.remove(client.seen, place) end
    place = place + 1
  end
end

local function handle(name) return things[name].handle end

-- ---- verbs

local verbs = {}

function verbs.client(name, url, ...)
  local set = options(1, ...)
  set.yield = IN_COROUTINES and hook or nil
  local client, err = dlock.open(url, set)
  if not client then return err.name end
  things[name] = {handle = client, seen = {}, dispatch = function() client:dispatch() end}
  return "OK"
end

function verbs.close(name) return said(handle(name):close()) end
function verbs.ping(name) return said(handle(name):ping()) end

function verbs.stats(name)
  local stats, err = handle(name):stats()
  return stats and ("OK held=%d waiting=%d"):format(stats.held, stats.waiting) or err.name
end

function verbs.metric(name, sample)
  local text, err = handle(name):metrics()
  if not text then return err.name end
  for line in text:gmatch "[^\n]+" do
    local named, value = line:match "^(.*) (.-)$"
    if named == sample then return "OK value=" .. value end
  end
  return "NOT_FOUND"
end

function verbs.fault(name, what, lock, ms)
  return said(handle(name):fault(what, lock, ms == "-1" and math.huge or tonumber(ms) / 1000))
end

function verbs.provision(name) return said(handle(name):provision()) end

function verbs.check(name)
  local found, err = handle(name):check()
  if not found then return err.name end
  local names = {}
  for place, finding in ipairs(found) do
    names[place] = finding.name
  end
  return "OK found=" .. (names[1] and table.concat(names, ",") or "none")
end

function verbs.lost(name)
  local event = next_of(things[name], function(event) return event.type == "lost" end)
  return event and ("OK token=%s cause=%s"):format(event.token, CAUSES[event.cause]) or "NO_EVENT"
end

function verbs.lock(client, name, kind, called, ...)
  local set = options(1, ...)
  set.kind = kind
  local lock, err = handle(client):lock(called, set)
  if not lock then return err.name end
  things[name] = {handle = lock, kind = kind, client = things[client]}
  return "OK"
end

function verbs.multi(client, name, ...)
  local members = {}
  for place, member in ipairs {...} do
    members[place] = handle(member)
  end
  local lock, err = handle(client):multi(members)
  if not lock then return err.name end
  things[name] = {handle = lock, kind = "multi", client = things[client]}
  return "OK"
end

function verbs.acquire(name, owner, ms)
  local lock, number = things[name], tonumber(owner)
  if ms == "0" then return acquired(lock, number, lock.handle:try {owner = number}) end
  return acquired(lock, number, lock.handle:acquire {owner = number, wait = seconds(ms)})
end

function verbs.release(name, owner) return said(handle(name):release {owner = tonumber(owner)}) end

function verbs.begin(name, lock, owner, ms)
  local wait = {lock = things[lock], owner = tonumber(owner)}
  things[name] = wait
  if IN_COROUTINES then
    local co = coroutine.create(function()
      wait.answer = acquired(wait.lock, wait.owner, wait.lock.handle:acquire {owner = wait.owner, wait = seconds(ms)})
    end)
    assert(coroutine.resume(co))
    return "OK"
  end
  last_tag = last_tag + 1
  wait.tag = last_tag
  return said(wait.lock.handle:submit {owner = wait.owner, wait = seconds(ms), tag = last_tag})
end

verbs["end"] = function(name)
  local wait = things[name]
  while IN_COROUTINES and not wait.answer do
    pump(wait.lock.client.handle)
  end
  if wait.answer then return wait.answer end
  local event = next_of(wait.lock.client, function(event) return ANSWER[event.type] and event.tag == wait.tag end)
  if not event then return "NO_EVENT" end
  return granted(not event.error, event.error, wait.lock.kind ~= "latch" and event.token)
end

function verbs.cancel(name)
  local wait = things[name]
  local good, err = wait.lock.handle:cancel {owner = wait.owner}
  return said(good, err, nil, "NOT_HELD")
end

--- A verb that queries a value of an owner, and prints it under a name.
local function query(method, name)
  return function(lock, owner)
    local value, err = handle(lock)[method](handle(lock), {owner = tonumber(owner)})
    return said(value, err, name)
  end
end

verbs.token, verbs.holds = query("token", "token"), query("hold_count", "holds")

function verbs.state(lock, owner)
  local state, err = handle(lock):state {owner = tonumber(owner)}
  return said(state and state:upper(), err, "state")
end

function verbs.remaining(lock, owner)
  local left, err = handle(lock):remaining {owner = tonumber(owner)}
  return said(left == math.huge and -1 or left and math.floor(left * 1000), err, "remaining")
end

function verbs.extend(lock, owner, ms) return said(handle(lock):extend(seconds(ms), {owner = tonumber(owner)})) end

function verbs.force(lock)
  local good, err = handle(lock):force_release()
  return said(good, err, nil, "NOT_HELD")
end

function verbs.inspect(lock)
  local seen, err = handle(lock):inspect()
  if not seen then return err.name end
  local free, foreign = seen.holder == "" and 1 or 0, seen.foreign and 1 or 0
  return ("OK free=%d waiters=%d foreign=%d"):format(free, seen.waiters, foreign)
end

function verbs.close_gate(lock, ms) return said(handle(lock):close_gate(seconds(ms))) end

function verbs.open_gate(lock)
  local good, err = handle(lock):open_gate()
  return said(good, err, nil, "UNCHANGED")
end

function verbs.export(lock, owner, name)
  local grant, err = handle(lock):export_grant {owner = tonumber(owner)}
  things[name] = {grant = grant}
  return said(grant, err)
end

function verbs.adopt(lock, owner, name)
  local token, err = handle(lock):adopt_grant(things[name].grant, {owner = tonumber(owner)})
  return said(token, err, "token")
end

--- A verb that changes or reads a number. otherwise is the status for false.
local function counts(method, name, otherwise)
  return function(lock, value)
    local good, err = handle(lock)[method](handle(lock), tonumber(value))
    return said(good, err, name, otherwise)
  end
end

verbs.set, verbs.add = counts("set_permits", nil, "UNCHANGED"), counts("add_permits", "value")
verbs.drain, verbs.available = counts("drain_permits", "value"), counts("available_permits", "value")
function verbs.reclaim(lock, silent)
  local permits, err = handle(lock):reclaim_permits(tonumber(silent) / 1000)
  return said(permits, err, "value")
end

verbs.count, verbs.down = counts("set_count", nil, "UNCHANGED"), counts("count_down", "value")
verbs.left = counts("count", "value")

function verbs.permit(lock, owner, index)
  local id, err = handle(lock):permit_id(tonumber(index), {owner = tonumber(owner)})
  return said(id and #id, err, "digits")
end

-- ---- transactions: a coroutine in the function of each, which executes one step at a time

function verbs.txn(client, name)
  things[name] = {owner = handle(client)}
  return "OK"
end

--- The end of a transaction: what it answered. It ends by a step that says so, or before its function was called.
local function ended(txn, good, ...)
  assert(good, ...)
  if coroutine.status(txn.co) ~= "dead" then return ... end
  stepping[txn.co], txn.co = nil, nil
  local done, err = ...
  return done and "OK" or err.name
end

function verbs.watch(name, key)
  local txn = things[name]
  if txn.co then return verbs.watching(name, key) end
  txn.co = coroutine.create(function()
    local good, result, err = pcall(txn.owner.transaction, txn.owner, {key}, function(open)
      local step = coroutine.yield "OK"
      while step ~= "commit" do
        if step == "rollback" then error(step, 0) end
        step = coroutine.yield(step(open))
      end
    end, 1)
    if not good then assert(result == "rollback", result) end
    return not good or result, err
  end)
  stepping[txn.co] = true
  return ended(txn, coroutine.resume(txn.co))
end

--- A verb that does something with an open transaction.
local function inside(step)
  return function(name, ...)
    local txn, words = things[name], {...}
    if not txn.co then return "ABSENT" end
    return ended(txn, coroutine.resume(txn.co, type(step) == "string" and step or function(open)
      return step(open, unpack(words))
    end))
  end
end

verbs.watching = inside(function(open, key) return said(open:watch(key)) end)
verbs.put = inside(function(open, key, value, ms) return said(open:set(key, value, ms and seconds(ms))) end)
verbs.incr = inside(function(open, key, by) return said(open:incr(key, tonumber(by))) end)
verbs.delete = inside(function(open, key) return said(open:delete(key)) end)
verbs.commit, verbs.rollback = inside "commit", inside "rollback"

verbs.get = inside(function(open, key)
  local value, err = open:get(key)
  return value and "OK value=" .. value or err and err.name or "NOT_FOUND"
end)

function verbs.reset()
  for _, thing in pairs(things) do
    if thing.dispatch then thing.handle:close() end
  end
  things = {}
  return "OK"
end

-- ---- a counter in Redis: read, then written, by plain commands of a connection of its own

local function connection(path)
  local fd = ffi.C.socket(1, 1, 0)
  local address = ffi.new("struct scenario_address", {1, path})
  assert(ffi.C.connect(fd, address, ffi.sizeof(address)) == 0, "there is no " .. path)
  return fd
end

--- The bulk text that was answered, or nil. An answer is one short read: nothing else is on its way.
local function command(fd, ...)
  local line, buffer = table.concat({...}, " ") .. "\r\n", ffi.new "char[256]"
  assert(ffi.C.send(fd, line, #line, 0) == #line)
  local answer = ""
  repeat
    answer = answer .. ffi.string(buffer, assert(ffi.C.recv(fd, buffer, 256, 0)))
  until answer:find "^[+:].*\n" or answer:find "^%$%-1\r\n" or answer:find "^%$%d+\r\n.*\n"
  return answer:match "^%$%d+\r\n(.*)\r\n"
end

--- So many times alone, add one to the counter and note the token.
function verbs.work(name, owner, times, path)
  local fd = connection(path)
  for _ = 1, tonumber(times) do
    local answer = verbs.acquire(name, owner, "20000")
    if answer:sub(1, 2) ~= "OK" then return answer end
    command(fd, "SET", "witness:counter", ("%d"):format((tonumber(command(fd, "GET", "witness:counter")) or 0) + 1))
    command(fd, "RPUSH", "witness:tokens", answer:match "token=(%d+)")
    answer = verbs.release(name, owner)
    if answer ~= "OK" then return answer end
  end
  ffi.C.close(fd)
  return "OK done=" .. times
end

for line in io.lines() do
  local words = {}
  for word in line:gmatch "%S+" do
    words[#words + 1] = decode(word)
  end
  local verb = verbs[table.remove(words, 1)]
  print(verb and verb(unpack(words)) or "ABSENT")
  io.flush()
end
verbs.reset()
