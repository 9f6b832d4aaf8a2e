"""The LuaJIT binding from a user's view: alone, under luv and in nginx."""
from __future__ import annotations

import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY, ROOT, SANITIZED, clean_env
from harness.server import Server, free_port
from harness.waiting import WHILE

BINDING = ROOT / "bindings/lua"
ENV = {"DLOCK_LIBRARY": str(LIBRARY), "LUA_PATH": f"{BINDING}/?.lua;;"}

# The begin of each script below. arg[1] is the server's URL.
PRELUDE = """
io.stdout:setvbuf "no"
local ffi, dlock, url = require "ffi", require "dlock", arg[1]
ffi.cdef [[
  typedef struct { long seconds, nanoseconds; } test_time;
  int clock_gettime(int, test_time *); int poll(int *, unsigned long, int); int kill(int, int);
  int fork(void); int waitpid(int, int *, int); void _exit(int);
]]
local function now()
  local time = ffi.new "test_time"
  ffi.C.clock_gettime(1, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end
local function eq(got, want)
  if got ~= want then error(("got %s, not %s"):format(tostring(got), tostring(want)), 2) end
end
local function fails(name, good, err)
  if good then error("it did not fail", 2) end
  if err.name ~= name then error(("got %s: %s, not %s"):format(err.name, err.message, name), 2) end
  return err
end
local function wait_until(condition)
  local limit = now() + 20
  while not condition() do
    if now() > limit then error("it never came true", 2) end
    ffi.C.poll(nil, 0, 5)
  end
end
local function this_coroutine() -- nil in the main one, which a LuaJIT with what is Lua 5.2's says otherwise
  local co, main = coroutine.running()
  return not main and co or nil
end
local function next_of(client, kind)
  local found
  wait_until(function()
    local event = client:poll(1)
    if event and event.type == kind then found = event end
    return found
  end)
  return found
end
local function status_of(name)
  local file = io.open("/proc/self/status")
  local text = file:read "*a"
  file:close()
  return tonumber(text:match(name .. ":%s*(%d+)"))
end
"""

Lua = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., str]


@pytest.fixture
def lua(tmp_path: pathlib.Path) -> Iterator[Lua]:
    """A program in LuaJIT: lua(text, *arguments, **env). It is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str, *arguments: Any, **env: str) -> subprocess.Popen[str]:
        path = tmp_path / f"script{len(started)}.lua"
        path.write_text(PRELUDE + text)
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        command = ["luajit", str(path), *map(str, arguments)]
        started.append(subprocess.Popen(command, text=True, env={**os.environ, **ENV, **env}, **pipes))
        return started[-1]

    yield start
    for program in started:
        program.kill()
        program.communicate()


@pytest.fixture
def run(lua: Lua) -> Run:
    """Runs a program, which must exit with 0. Returns its output."""

    def start(text: str, *arguments: Any, **env: str) -> str:
        program = lua(text, *arguments, **env)
        output, errors = program.communicate(timeout=3 * WHILE)
        assert program.returncode == 0 and not errors, errors
        return output

    return start


def says(program: subprocess.Popen[str], line: str) -> None:
    assert program.stdout
    assert program.stdout.readline() == line + "\n"


def tell(program: subprocess.Popen[str], line: str = "") -> None:
    assert program.stdin
    program.stdin.write(line + "\n")
    program.stdin.flush()


# ---- acquire and release


def test_with_holds_and_gives_back(run: Run, redis_server: Server) -> None:
    run(
        """
        local client = assert(dlock.open(url))
        local lock = assert(client:lock "a")
        local results = {lock:with(function(held, ...)
          eq(held, lock)
          eq(lock:state(), "held")
          eq(lock:hold_count(), 1)
          assert(lock:token():find "^%d+$" and lock:remaining() > 0 and lock:remaining() <= 30)
          local seen = lock:inspect()
          assert(seen.holder ~= "" and not seen.foreign and seen.remaining <= 30 and seen.waiters == 0)
          assert(tonumber(seen.token) >= tonumber(lock:token()))
          return select("#", ...), ...
        end, 7, nil, "x")}
        eq(results[1], true) eq(results[2], 3) eq(results[3], 7) eq(results[4], nil) eq(results[5], "x")
        eq(lock:state(), "none")
        eq(lock:hold_count(), 0)
        eq(lock:inspect().holder, "")
        eq(lock:inspect().remaining, nil)
        eq(client:close(), true)
        """,
        redis_server.url,
    )


def test_with_gives_back_after_an_error(run: Run, redis_server: Server) -> None:
    run(
        """
        local lock = assert(assert(dlock.open(url)):lock "a")
        local thrown = {}
        local good, why = pcall(lock.with, lock, function() error(thrown) end)
        eq(good, false) eq(why, thrown) eq(lock:state(), "none")
        good, why = pcall(lock.with, lock, function() error "a text" end)
        assert(not good and why:find "script0.lua:%d+: a text$")
        eq(lock:state(), "none")
        -- an error of ours is not taken for the answer of lock:with
        good, why = pcall(lock.with, lock, function() assert(lock:acquire {wait = -3}) end)
        eq(good, false) eq(why.name, "INVALID_ARGUMENT")
        """,
        redis_server.url,
    )


def test_with_calls_nothing_without_the_lock(run: Run, redis_server: Server) -> None:
    run(
        """
        local client = assert(dlock.open(url))
        local lock, called = assert(client:lock "a"), false
        local function call() called = true end
        lock:acquire {owner = 1}
        fails("BUSY", lock:with({wait = 0}, call))
        fails("TIMED_OUT", lock:with({wait = 0.05}, call))
        fails("INVALID_ARGUMENT", lock:with({wait = 0}))
        eq(called, false)
        eq(lock:with({owner = 1}, function() return lock:hold_count {owner = 1} end), true)
        eq(lock:hold_count {owner = 1}, 1)
        """,
        redis_server.url,
    )


def test_each_coroutine_is_an_owner(run: Run, redis_server: Server) -> None:
    run(
        """
        local client = assert(dlock.open(url))
        local lock = assert(client:lock "a")
        eq(lock:acquire(), true) eq(lock:acquire(), true) eq(client:lock("a"):acquire(), true)
        local token = lock:token()
        eq(lock:hold_count(), 3)
        local other = coroutine.wrap(function()
          fails("BUSY", lock:try())
          fails("NOT_HELD", lock:release())
          fails("NOT_HELD", lock:token())
          coroutine.yield()
          eq(lock:try(), true)
          local mine = lock:token()
          coroutine.yield()
          eq(lock:token(), mine) -- still the same owner
          eq(lock:release(), true)
        end)
        other()
        eq(lock:release(), true) eq(lock:release(), true)
        eq(lock:state(), "held") eq(lock:token(), token)
        eq(lock:release(), true)
        other()
        fails("BUSY", lock:try())
        other()
        eq(lock:try(), true)
        """,
        redis_server.url,
    )


def test_owners_by_number(run: Run, redis_server: Server) -> None:
    run(
        """
        local client = assert(dlock.open(url))
        local lock, second = assert(client:lock "a"), assert(client:lock("a", {owner = 2}))
        eq(lock:acquire {owner = 1}, true)
        eq(lock:state {owner = 1}, "held")
        fails("BUSY", second:try())
        fails("BUSY", lock:try {owner = 0}) -- the thread
        eq(second:release {owner = 1}, true)
        eq(second:try(), true)
        eq(lock:state {owner = 2}, "held") eq(lock:state(), "none")
        eq(second:release(), true)
        """,
        redis_server.url,
    )


def test_time_out(run: Run, redis_server: Server) -> None:
    run(
        """
        local lock = assert(assert(dlock.open(url)):lock "a")
        lock:acquire {owner = 1}
        local good, err = lock:acquire {wait = 0}
        eq(good, false) eq(err.name, "BUSY") eq(err.code, 1) eq(err.retryable, true)
        assert(tostring(err):find "a" and tostring(err) == err.message and "x: " .. err == "x: " .. err.message)
        local begin = now()
        good, err = lock:acquire {wait = 0.2}
        eq(good, false) eq(err.name, "TIMED_OUT")
        assert(now() - begin >= 0.2 and now() - begin < 5)
        begin = now()
        fails("TIMED_OUT", lock:acquire {wait = 1.25}) -- longer than the library stays inside for an interruptible call
        assert(now() - begin >= 1.25 and now() - begin < 10)
        """,
        redis_server.url,
    )


def test_processes_exclude_each_other(lua: Lua, redis_server: Server) -> None:
    text = """
        local lock = assert(assert(dlock.open(url)):lock "count")
        for _ = 1, 100 do
          assert(lock:with(function()
            local file = assert(io.open(arg[2]))
            local count = file:read "*n"
            file:close()
            file = assert(io.open(arg[2], "w"))
            file:write(count + 1)
            file:close()
          end))
        end
        """
    with tempfile.NamedTemporaryFile("w+") as counter:
        counter.write("0")
        counter.flush()
        programs = [lua(text, redis_server.url, counter.name) for _ in range(3)]
        for program in programs:
            assert program.communicate(timeout=2 * WHILE) == ("", "")
        assert pathlib.Path(counter.name).read_text() == "300"


def test_tokens_are_exact_and_grow(run: Run, redis_server: Server) -> None:
    output = run(
        """
        local first, second = assert(dlock.open(url)), assert(dlock.open(url))
        for turn = 1, 20 do
          local lock = (turn % 2 == 1 and first or second):lock "a"
          lock:acquire()
          print(lock:token() .. " " .. lock:inspect().token)
          lock:release()
        end
        """,
        redis_server.url,
    )
    lines = [[int(word) for word in line.split()] for line in output.splitlines()]
    tokens = [token for token, _ in lines]
    assert tokens == sorted(set(tokens)) and len(tokens) == 20
    assert len(str(tokens[0])) == 16 and all(reserved >= token for token, reserved in lines)
    fence = next(key for key in redis_server.command("KEYS", "*") if b"token" in key)
    assert int(redis_server.command("GET", fence)) == lines[-1][1]


def test_extend_and_remaining(run: Run, redis_server: Server) -> None:
    run(
        """
        local lock = assert(assert(dlock.open(url)):lock("a", {lease_ms = 20000, renew = false}))
        fails("NOT_HELD", lock:remaining())
        lock:acquire()
        assert(lock:remaining() > 5 and lock:remaining() <= 20)
        eq(lock:extend(100), true)
        assert(lock:remaining() > 50 and lock:remaining() <= 100)
        fails("INVALID_ARGUMENT", lock:extend(0.001))
        """,
        redis_server.url,
    )


def test_force_release(run: Run, redis_server: Server) -> None:
    run(
        """
        local client, other = assert(dlock.open(url)), assert(dlock.open(url))
        local lock, theirs = client:lock "a", other:lock "a"
        eq(theirs:force_release(), false)
        lock:acquire()
        eq(theirs:force_release(), true)
        eq(theirs:acquire {wait = 20}, true)
        fails("LOST", lock:release())
        """,
        redis_server.url,
    )


def test_export_and_adopt_between_programs(lua: Lua, run: Run, redis_server: Server) -> None:
    output = run(
        """
        local lock = assert(assert(dlock.open(url)):lock "a\\255")
        lock:acquire()
        local token = lock:token()
        io.write(token, " ", (lock:export_grant():gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)))
        eq(lock:state(), "none")
        fails("NOT_HELD", lock:export_grant())
        """,
        redis_server.url,
    )
    run(
        """
        local lock = assert(assert(dlock.open(url)):lock "a\\255")
        local grant = arg[3]:gsub("..", function(byte) return string.char(tonumber(byte, 16)) end)
        fails("INVALID_GRANT", lock:adopt_grant "no such grant")
        eq(lock:adopt_grant(grant), arg[2])
        eq(lock:token(), arg[2]) eq(lock:state(), "held")
        eq(lock:release(), true)
        """,
        redis_server.url,
        *output.split(),
    )


# ---- loss


LOSE = """
local client = assert(dlock.open(url))
local lock = assert(client:lock("a", {lease_ms = 200, renew = false}))
local function lose()
  assert(lock:acquire {wait = 20})
  local event = next_of(client, "lost")
  eq(event.lock_id, lock.id) eq(event.cause, "expired") eq(event.error.name, "LOST")
  assert(event.token:find "^%d+$")
end
"""


def test_lost(run: Run, redis_server: Server) -> None:
    run(
        LOSE
        + """
        lose()
        eq(lock:state(), "lost")
        fails("LOST", lock:remaining()) fails("LOST", lock:token()) fails("LOST", lock:release())
        fails("NOT_HELD", lock:release())
        lose() -- it can be acquired again
        """,
        redis_server.url,
    )


def test_with_tells_of_the_loss_but_not_instead_of_an_error(run: Run, redis_server: Server) -> None:
    run(
        LOSE
        + """
        fails("LOST", lock:with(function() next_of(client, "lost") return 7 end))
        local good, why = pcall(lock.with, lock, function() next_of(client, "lost") error("mine", 0) end)
        eq(good, false) eq(why, "mine")
        """,
        redis_server.url,
    )


LOSSES = """
local count, lease, server = 200, 1.5, tonumber(arg[2])
local began, seen, lost, late, last, longest = {}, {}, 0, 0, nil, 0
local function on_event(event)
  if event.type ~= "lost" then return end
  assert(not seen[event.lock_id], "told twice")
  seen[event.lock_id] = true
  lost = lost + 1
  if now() >= began[event.lock_id] + lease then late = late + 1 end
end
local function hold(client)
  for number = 1, count do
    local lock = assert(client:lock("lock" .. number))
    began[lock.id] = now()
    assert(lock:acquire())
  end
  ffi.C.kill(server, 19) -- SIGSTOP
  last = now()
  eq(client:stats().renewed, 0) -- so that each deadline counts from its acquisition
end
local function tick() -- whether all is over; notes for how long nothing ran here
  if not last then return false end
  longest, last = math.max(longest, now() - last), now()
  return lost == count
end
local function finish(client)
  eq(lost, count) eq(client:stats().lost, count)
  print(late == 0 and "in time" or longest > 0.05 and "held up" or "late " .. late)
end
"""


@pytest.mark.parametrize("host", ["plain", "luv"])
def test_losses_are_seen_before_the_deadline(run: Run, new_server: Callable[..., Server], host: str) -> None:
    """The server stops for good: the loop learns of each of 200 losses before the lease can end on the server.

    A run counts only if the loop was never delayed by the machine. One of five runs must count.
    """
    text = """
        local client
        if arg[3] == "plain" then
          client = assert(dlock.open(url, {lease_ms = lease * 1000, on_event = on_event}))
          hold(client)
          wait_until(function() client:dispatch() return tick() end)
        else
          local uv, timer = require "luv", nil
          client = assert(dlock.open(url, {lease_ms = lease * 1000, on_event = on_event, yield = require "dlock.luv"}))
          timer = uv.new_timer()
          timer:start(5, 5, function() if tick() then timer:close() end end)
          coroutine.wrap(hold)(client)
          uv.run()
        end
        finish(client)
        """
    for _ in range(5):
        server = new_server()
        said = run(LOSSES + text, server.url, server.pid, host)
        server.kill()
        if said != "held up\n":
            break
    assert said == "in time\n"


# ---- events


def test_submit(run: Run, redis_server: Server) -> None:
    run(
        """
        local client = assert(dlock.open(url))
        local lock = assert(client:lock("a", {owner = 3}))
        eq(lock:submit {tag = 70}, true)
        local event = client:poll(20)
        eq(event.type, "acquired") eq(event.tag, 70) eq(event.lock_id, lock.id) eq(event.owner, 3) eq(event.status, 0)
        eq(event.token, lock:token()) eq(event.error, nil) eq(event.cause, nil)
        assert(event.remaining > 0 and event.remaining <= 30)
        lock:submit {tag = 71, wait = 0, owner = 4}
        event = client:poll(20)
        eq(event.type, "acquire_failed") eq(event.tag, 71) eq(event.owner, 4) eq(event.token, nil)
        eq(event.error.name, "BUSY") eq(event.error.code, event.status) assert(event.error.message ~= "")
        eq(lock:submit_release {tag = -72}, true)
        event = client:poll(20)
        eq(event.type, "released") eq(event.tag, -72)
        fails("NOT_HELD", lock:submit_release {tag = 73})
        eq(lock:submit {tag = 2 ^ 53 - 1}, true)
        eq(client:poll(20).tag, 2 ^ 53 - 1)
        """,
        redis_server.url,
    )


def test_cancel(run: Run, redis_server: Server) -> None:
    run(
        """
        local client = assert(dlock.open(url))
        local lock = assert(client:lock "a")
        lock:acquire()
        eq(lock:cancel {owner = 2}, false)
        lock:submit {owner = 2, tag = 5}
        eq(lock:state {owner = 2}, "waiting")
        eq(lock:cancel {owner = 2}, true)
        local event = client:poll(20)
        eq(event.tag, 5) eq(event.error.name, "CANCELLED")
        """,
        redis_server.url,
    )


def test_the_descriptor_is_readable_exactly_while_events_wait(run: Run, redis_server: Server) -> None:
    run(
        """
        local client = assert(dlock.open(url))
        local lock = assert(client:lock "a")
        local descriptor = ffi.new("int[2]", client:fd(), 1)
        local function readable(ms) return ffi.C.poll(descriptor, 1, ms) == 1 end
        eq(readable(0), false) eq(client:poll(), nil)
        lock:submit {owner = 1} lock:submit {owner = 2} lock:submit {owner = 3, wait = 0}
        wait_until(function() return client:stats().waiting == 1 end)
        eq(readable(20000), true)
        assert(client:poll()) eq(readable(20000), true) -- none is taken and kept
        assert(client:poll()) eq(readable(0), false) eq(client:poll(), nil)
        """,
        redis_server.url,
    )


def test_wait_for_an_event(run: Run, redis_server: Server) -> None:
    run(
        """
        local client = assert(dlock.open(url))
        local begin = now()
        eq(client:poll(0.2), nil)
        assert(now() - begin >= 0.2 and now() - begin < 5)
        eq(client:wake(), true)
        eq(client:poll(-1), nil)
        local lock = client:lock "a"
        lock:submit()
        eq(client:poll(-1).type, "acquired")
        eq(client:close(), true)
        eq(client:poll(-1).cause, "closed") -- what was held
        fails("CLOSED", client:poll(-1)) fails("CLOSED", client:dispatch()) fails("CLOSED", lock:acquire())
        eq(client:close(), true)
        """,
        redis_server.url,
    )


# ---- coroutines: a hook that lets others run


# Coroutines that are resumed in turn ("polled"), or only when their answer is there ("woken").
SCHEDULER = """
local resumed, runnable, alive = 0, {}, 0
local function resume(co)
  resumed = resumed + 1
  assert(coroutine.resume(co))
  if coroutine.status(co) == "dead" then alive = alive - 1 end
end
local hooks = {
  polled = function()
    table.insert(runnable, this_coroutine())
    coroutine.yield()
  end,
  woken = function(client, wait)
    local co = this_coroutine()
    wait.wake = function() table.insert(runnable, co) end
    coroutine.yield()
  end,
}
local function pause()
  table.insert(runnable, this_coroutine())
  coroutine.yield()
end
local function go(body, ...)
  alive = alive + 1
  local values = {...}
  table.insert(runnable, coroutine.create(function() return body(unpack(values)) end))
end
local function run_all(client)
  local descriptor = ffi.new("int[2]", client:fd(), 1)
  while alive > 0 do
    local turn = runnable
    runnable = {}
    for _, co in ipairs(turn) do resume(co) end
    if #runnable == 0 and alive > 0 then
      assert(ffi.C.poll(descriptor, 1, 20000) == 1, "nothing comes")
    end
    assert(client:dispatch())
  end
end
"""


@pytest.mark.parametrize("hook", ["polled", "woken"])
def test_a_thousand_coroutines_in_one_thread(run: Run, redis_server: Server, hook: str) -> None:
    run(
        SCHEDULER
        + """
        local client = assert(dlock.open(url, {yield = hooks[arg[2]]}))
        local inside, most, count, last = {}, 0, 0, {}
        local before = status_of "Threads"
        for number = 1, 1000 do
          go(function()
            local name = "lock" .. number % 4
            local lock = assert(client:lock(name))
            assert(lock:with(function()
              inside[name] = (inside[name] or 0) + 1
              most = math.max(most, inside[name])
              assert(not last[name] or last[name] < lock:token())
              last[name] = lock:token()
              pause()
              count, inside[name] = count + 1, inside[name] - 1
            end))
          end)
        end
        run_all(client)
        eq(count, 1000) eq(most, 1)
        assert(status_of "Threads" <= before + 3, "threads: " .. status_of "Threads")
        eq(client:stats().held, 0) eq(client:stats().waiting, 0) eq(client:waiting(), false)
        eq(next(client.waits), nil) eq(#client.wakes, 0)
        """,
        redis_server.url,
        hook,
    )


def test_others_have_their_turn(run: Run, redis_server: Server) -> None:
    """A coroutine whose answers are always ready runs the hook nevertheless, once in so many answers."""
    run(
        """
        local turns = 0
        local function hook() turns = turns + 1 ffi.C.poll(nil, 0, 1) end
        local lock = assert(dlock.open(url, {yield = hook})):lock "alone"
        for _ = 1, 100 do
          turns = 0
          for _ = 1, 16 do assert(lock:acquire()) assert(lock:release()) end
          assert(turns >= 2, "only " .. turns)
        end
        """,
        redis_server.url,
    )


def test_hand_overs_do_not_nest(run: Run, redis_server: Server) -> None:
    """Hooks that resume at once, and coroutines that call again at once: nested calls would fill the stack."""
    run(
        """
        local depth, deepest, count = 0, 0, 0
        local function hook(_, wait)
          local co = this_coroutine()
          wait.wake = function()
            depth = depth + 1
            deepest = math.max(deepest, depth)
            assert(coroutine.resume(co))
            depth = depth - 1
          end
          coroutine.yield()
        end
        local client = assert(dlock.open(url, {yield = hook}))
        for _ = 1, 400 do
          assert(coroutine.resume(coroutine.create(function()
            local lock = client:lock "a"
            for _ = 1, 3 do
              assert(lock:acquire())
              count = count + 1
              assert(lock:release())
            end
          end)))
        end
        local descriptor = ffi.new("int[2]", client:fd(), 1)
        while count < 1200 or client:waiting() do
          assert(ffi.C.poll(descriptor, 1, 20000) == 1, "nothing comes")
          assert(client:dispatch())
        end
        eq(deepest, 1)
        """,
        redis_server.url,
    )


def test_errors_of_others_are_no_answers(run: Run, redis_server: Server) -> None:
    """Errors of a resumed coroutine, and of on_event: dispatch and poll raise them after all other events were handled."""
    run(
        """
        local function hook(_, wait)
          local co = this_coroutine()
          if not co then return ffi.C.poll(nil, 0, 1) end -- the main one takes the answers of all others
          wait.wake = function() local good, why = coroutine.resume(co) if not good then error(why, 0) end end
          coroutine.yield()
        end
        local heard, reached = 0, {}
        local function on_event(event) heard = heard + 1 error("of on_event: " .. event.type, 0) end
        local client = assert(dlock.open(url, {yield = hook, on_event = on_event}))
        local other, mine = assert(dlock.open(url)), client:lock "mine"
        for _, name in ipairs {"a", "b"} do
          local theirs = other:lock(name)
          theirs:acquire()
          assert(coroutine.resume(coroutine.create(function()
            eq(client:lock(name):acquire(), true)
            reached[name] = true
            error("of " .. name, 0)
          end)))
          theirs:submit_release()
        end
        wait_until(function()
          eq(mine:acquire(), true) eq(mine:release(), true)
          return reached.a and reached.b
        end)
        local good, why = pcall(client.dispatch, client)
        eq(good, false) assert(why == "of a" or why == "of b", why)
        eq(client:dispatch(), true)

        assert(client:lock("short", {lease_ms = 200, renew = false}):acquire())
        wait_until(function() eq(client:ping(), true) return heard == 1 end)
        good, why = pcall(client.poll, client)
        eq(good, false) eq(why, "of on_event: lost")
        eq(client:poll(), nil)
        """,
        redis_server.url,
    )


def test_answers_are_the_same_with_a_hook(run: Run, redis_server: Server) -> None:
    run(
        SCHEDULER
        + """
        local events = {}
        local function on_event(event) table.insert(events, event) end
        local client = assert(dlock.open(url, {yield = hooks.woken, on_event = on_event}))
        local other = assert(dlock.open(url))
        local theirs = other:lock("a", {owner = 1})
        theirs:acquire()
        go(function()
          local lock = client:lock("a", {lease_ms = 200, renew = false})
          local good, err = lock:try()
          eq(good, false) eq(err.name, "BUSY") assert(err.message:find "'a'")
          good, err = lock:acquire {wait = 0.05}
          eq(good, false) eq(err.name, "TIMED_OUT")
          fails("NOT_HELD", lock:release())
          fails("INVALID_ARGUMENT", lock:acquire {wait = -2})
          eq(theirs:release(), true)
          eq(lock:acquire(), true) eq(lock:acquire(), true) eq(lock:hold_count(), 2)
          eq(lock:release(), true)
          wait_until(function() client:dispatch() return lock:state() == "lost" and events[1] end)
          eq(events[1].type, "lost") eq(events[1].tag, 0)
          fails("LOST", lock:release())
          lock:submit {tag = 9}
          wait_until(function() client:dispatch() return events[2] end)
          eq(events[2].type, "acquired") eq(events[2].tag, 9)
          eq(lock:release(), true)
        end)
        run_all(client)
        """,
        redis_server.url,
    )


def test_an_answer_that_came_before_the_end_counts(run: Run, redis_server: Server) -> None:
    """The lock was released when the client was closed; the coroutine learns of both at once."""
    run(
        """
        local client = assert(dlock.open(url, {yield = coroutine.yield, busy_poll_us = 0}))
        local lock, theirs = client:lock "a", assert(dlock.open(url)):lock "a"
        local releasing, good, why
        local co = coroutine.create(function()
          assert(lock:acquire())
          releasing = true
          good, why = lock:release()
        end)
        wait_until(function() client:dispatch() assert(coroutine.resume(co)) return releasing end)
        assert(theirs:acquire {wait = 20})
        client:close()
        wait_until(function() return coroutine.status(co) == "dead" or assert(coroutine.resume(co)) and false end)
        eq(why, nil)
        eq(good, true)
        """,
        redis_server.url,
    )


def test_poll_ends_in_time_whatever_it_wakes(run: Run, redis_server: Server) -> None:
    """Each of the waits ends before poll's time is over: poll does not start its time anew."""
    run(
        """
        local function hook(_, wait)
          local co = this_coroutine()
          wait.wake = function() assert(coroutine.resume(co)) end
          coroutine.yield()
        end
        local client, other = assert(dlock.open(url, {yield = hook})), assert(dlock.open(url))
        local ended = 0
        for number = 1, 12 do
          assert(other:lock("a" .. number):acquire {owner = number})
          local co = coroutine.create(function()
            client:lock("a" .. number):acquire {wait = number * 0.25}
            ended = ended + 1
          end)
          assert(coroutine.resume(co))
        end
        eq(client:poll(0.5), nil)
        assert(ended < 12, ended)
        client:close()
        """,
        redis_server.url,
    )


def test_transactions_that_fail_under_a_hook(run: Run, redis_server: Server) -> None:
    """Their connection is used by the next transaction."""
    run(
        """
        local client = assert(dlock.open(url, {yield = coroutine.yield}))
        local before
        local co = coroutine.create(function()
          assert(client:ping())
          before = client:stats().connects
          for _ = 1, 50 do
            local good, why = pcall(client.transaction, client, {"k"}, function() error("no stock", 0) end)
            eq(why, "no stock")
            assert(client:ping()) -- the connection has gone back by then
          end
        end)
        wait_until(function() client:dispatch() assert(coroutine.resume(co)) return coroutine.status(co) == "dead" end)
        assert(client:stats().connects - before < 25, client:stats().connects - before)
        """,
        redis_server.url,
    )


def test_closing_ends_waits(run: Run, redis_server: Server) -> None:
    run(
        SCHEDULER
        + """
        local client = assert(dlock.open(url, {yield = hooks.woken}))
        local ended = 0
        for number = 1, 10 do
          go(function()
            local lock = client:lock "a"
            if number > 1 then
              fails("CLOSED", lock:acquire())
              ended = ended + 1
            else
              eq(lock:acquire(), true)
              for _ = 1, 10 do pause() end
              eq(client:close(), true)
            end
          end)
        end
        while alive > 0 do
          local turn = runnable
          runnable = {}
          for _, co in ipairs(turn) do resume(co) end
          client:dispatch()
        end
        eq(ended, 9)
        """,
        redis_server.url,
    )
    assert not [key for key in redis_server.command("KEYS", "*") if b"token" not in key]


def test_a_hook_that_fails_leaves_nothing_behind(run: Run, redis_server: Server) -> None:
    run(
        """
        local thrown = {}
        local other = assert(dlock.open(url))
        local theirs, granted = other:lock "a", nil
        local function hook(client)
          if granted then -- the lock is won, but the answer not taken
            theirs:release()
            wait_until(function() return client:stats().acquired == 1 end)
          end
          error(thrown)
        end
        local client = assert(dlock.open(url, {yield = hook}))
        local lock = client:lock "a"
        for _, value in ipairs {false, true} do
          granted = value
          theirs:acquire()
          local good, why = pcall(lock.acquire, lock)
          eq(good, false) eq(why, thrown)
          if not granted then theirs:release() end
          wait_until(function()
            client:dispatch()
            return client:stats().held + client:stats().waiting == 0 and not client:waiting()
          end)
          eq(client:stats().acquired, granted and 1 or 0)
          eq(theirs:acquire {wait = 20}, true) eq(theirs:release(), true)
        end
        """,
        redis_server.url,
    )


def test_a_grant_that_nobody_waits_for_any_more_is_given_back(run: Run, new_server: Callable[..., Server]) -> None:
    """The hook raised, or the coroutine was collected, while the server worked: an adoption cannot be cancelled."""
    server = new_server()
    run(
        """
        local fail, pid = nil, tonumber(arg[2])
        local function hook() if this_coroutine() then coroutine.yield() elseif fail then error(fail, 0) end end
        local options = {yield = hook, command_timeout_ms = 20000}
        local client, other = assert(dlock.open(url, options)), assert(dlock.open(url))
        assert(client:ping())
        local lock, theirs = client:lock "a", other:lock "a"
        for _, way in ipairs {"raised", "collected"} do
          eq(theirs:acquire {wait = 20}, true)
          local grant = theirs:export_grant()
          ffi.C.kill(pid, 19) -- SIGSTOP
          if way == "raised" then
            fail = "ended"
            local good, why = pcall(lock.adopt_grant, lock, grant)
            fail = nil
            eq(good, false) eq(why, "ended")
          else
            assert(coroutine.resume(coroutine.create(function() lock:adopt_grant(grant) end)))
            collectgarbage() collectgarbage()
            client:dispatch()
          end
          eq(client:waiting(), true) -- for what to give back
          collectgarbage "stop"
          ffi.C.kill(pid, 18) -- SIGCONT
          wait_until(function() client:dispatch() return not client:waiting() end)
          wait_until(function() return client:stats().held == 0 end)
          collectgarbage "restart"
          eq(theirs:acquire {wait = 20}, true) eq(theirs:release(), true)
        end
        """,
        server.url,
        server.pid,
    )


def test_a_lost_coroutine_leaves_the_line(run: Run, redis_server: Server) -> None:
    """Collected while it waits: one dispatch ends its wait. If it was granted before that, the reader of the event releases it."""
    run(
        """
        local client, other = assert(dlock.open(url, {yield = coroutine.yield})), assert(dlock.open(url))
        local theirs = other:lock "a"
        for _, way in ipairs {"dispatch", "poll"} do
          eq(theirs:acquire {wait = 20}, true)
          local acquired = client:stats().acquired
          do
            local co = coroutine.create(function() client:lock("a"):acquire() end)
            assert(coroutine.resume(co))
            wait_until(function() return client:stats().waiting == 1 end)
          end
          collectgarbage() collectgarbage()
          collectgarbage "stop"
          if way == "dispatch" then
            client:dispatch()
            wait_until(function() return client:stats().waiting == 0 end)
            wait_until(function() client:dispatch() return not client:waiting() end)
            eq(client:stats().acquired, acquired)
            eq(theirs:release(), true)
          else
            eq(theirs:release(), true)
            wait_until(function() return client:stats().acquired == acquired + 1 end)
            wait_until(function() eq(client:poll(), nil) return not client:waiting() end)
          end
          wait_until(function() return client:stats().held == 0 end)
          collectgarbage "restart"
        end
        eq(theirs:acquire {wait = 20}, true)
        """,
        redis_server.url,
    )


def test_what_a_lost_coroutine_was_granted_is_given_back(run: Run, redis_server: Server) -> None:
    run(
        """
        local client, other = assert(dlock.open(url, {yield = coroutine.yield})), assert(dlock.open(url))
        local theirs = other:lock "a"
        for _, first in ipairs {"collected", "granted"} do
          theirs:acquire()
          local granted = client:stats().acquired
          do
            local co = coroutine.create(function() client:lock("a"):acquire() end)
            assert(coroutine.resume(co))
            wait_until(function() return client:stats().waiting == 1 end)
            if first == "granted" then
              theirs:release()
              wait_until(function() client:dispatch() return select(2, next(client.waits)).event end)
            end
            eq(client:waiting(), true)
          end
          collectgarbage() collectgarbage()
          if first == "collected" then theirs:release() end
          wait_until(function() return client:stats().acquired == granted + 1 end)
          wait_until(function() client:dispatch() return not client:waiting() end)
          eq(theirs:acquire {wait = 20}, true)
          eq(theirs:release(), true)
          wait_until(function() client:dispatch() return client:stats().held == 0 end)
        end
        """,
        redis_server.url,
    )


def test_events_that_nobody_polls_are_bounded(run: Run, redis_server: Server) -> None:
    """With a hook and without on_event: the newest event_limit events are kept, and all answers to submitted calls."""
    run(
        """
        local function hook() ffi.C.poll(nil, 0, 1) end
        local client = assert(dlock.open(url, {yield = hook, event_limit = 16, lease_ms = 200, renew = false}))
        local locks = {}
        for number = 1, 40 do locks[number] = assert(client:lock("a" .. number)) end
        local function lost(count) return client:ping() and client:stats().lost == count end
        local function left()
          local answers, news, newest = 0, 0, nil
          for event in function() return client:poll() end do
            if event.type == "acquired" then answers = answers + 1 else news = news + 1 end
            newest = event
          end
          return answers, news, newest
        end
        for number = 1, 40 do locks[number]:submit {tag = number} end
        wait_until(function() return lost(40) end)
        local answers, news, newest = left()
        eq(answers, 40) assert(news <= 16, news)

        for number = 1, 40 do assert(locks[number]:acquire {wait = 20}) end
        wait_until(function() return lost(80) end)
        local last = client:lock "last"
        assert(last:acquire())
        wait_until(function() return lost(81) and client.queue[client.newest].lock_id == last.id end)
        answers, news, newest = left()
        eq(answers, 0) eq(news, 16) eq(newest.lock_id, last.id)
        """,
        redis_server.url,
    )


# ---- kinds: each blocking, and in coroutines

# both(body) runs body(client, other) with a blocking client, then in a coroutine with a client that has a hook.
BOTH = SCHEDULER + """
local function both(body)
  local other = assert(dlock.open(url))
  body(assert(dlock.open(url)), other)
  local client = assert(dlock.open(url, {yield = hooks.woken}))
  go(body, client, other)
  run_all(client)
end
"""


@pytest.mark.parametrize("kind", ["mutex", "fair", "write"])
def test_exclusive_kinds(run: Run, redis_server: Server, kind: str) -> None:
    run(
        BOTH
        + """
        both(function(client, other)
          local lock, theirs = client:lock("a", {kind = arg[2]}), other:lock("a", {kind = arg[2], owner = 1})
          eq(lock.kind, arg[2])
          eq(lock:acquire(), true) eq(lock:acquire(), true)
          local token = lock:token()
          fails("BUSY", theirs:try()) fails("BUSY", lock:try {owner = 5})
          eq(lock:release(), true) eq(lock:state(), "held") eq(lock:release(), true) eq(lock:state(), "none")
          eq(theirs:acquire {wait = 20}, true) assert(theirs:token() > token)
          fails("TIMED_OUT", lock:acquire {wait = 0.05})
          eq(theirs:release(), true)
          eq(lock:with({wait = 20}, function() return lock:hold_count() end), true)
        end)
        """,
        redis_server.url,
        kind,
    )


def test_read_and_write(run: Run, redis_server: Server) -> None:
    run(
        BOTH
        + """
        both(function(client, other)
          local read, write = client:lock("a", {kind = "read"}), other:lock("a", {kind = "write", owner = 1})
          eq(read:acquire {wait = 20}, true) eq(read:acquire {owner = 7, wait = 20}, true)
          eq(other:lock("a", {kind = "read"}):with(function() end), true)
          fails("BUSY", write:try())
          fails("UPGRADE_REFUSED", client:lock("a", {kind = "write"}):try())
          eq(read:release(), true) eq(read:release {owner = 7}, true)
          eq(write:acquire {wait = 20}, true)
          fails("TIMED_OUT", read:acquire {wait = 0.05})
          eq(write:release(), true)
        end)
        """,
        redis_server.url,
    )


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_semaphores(run: Run, redis_server: Server, kind: str) -> None:
    run(
        BOTH
        + """
        local round = 0
        both(function(client, other)
          round = round + 1
          local name = "a" .. round
          local lock, theirs = client:lock(name, {kind = arg[2]}), other:lock(name, {kind = arg[2], owner = 1})
          eq(lock:set_permits(2), true) eq(lock:set_permits(5), false)
          eq(theirs:available_permits(), 2)
          eq(lock:acquire {wait = 20}, true) eq(theirs:acquire {wait = 20}, true)
          assert(lock:token() ~= theirs:token())
          fails("BUSY", lock:try {owner = 3})
          fails("TIMED_OUT", lock:acquire {owner = 3, wait = 0.05})
          eq(lock:add_permits(1), 1)
          eq(lock:acquire {owner = 3, wait = 20}, true)
          if arg[2] == "permit_semaphore" then
            assert(lock:permit_id(0):find("^" .. ("%x"):rep(32) .. "$"))
            fails("UNSUPPORTED", lock:drain_permits())
          else
            fails("UNSUPPORTED", lock:permit_id(0))
          end
          eq(lock:release(), true) eq(theirs:release(), true) eq(lock:release {owner = 3}, true)
          wait_until(function() return lock:available_permits() == 3 end)
          if arg[2] == "semaphore" then eq(lock:drain_permits(), 3) end
        end)
        """,
        redis_server.url,
        kind,
    )


def test_latch(run: Run, redis_server: Server) -> None:
    run(
        BOTH
        + """
        both(function(client, other)
          local latch, theirs = client:lock("a", {kind = "latch"}), other:lock("a", {kind = "latch"})
          eq(latch:set_count(3), true) eq(latch:set_count(9), false)
          eq(theirs:count(), 3)
          fails("BUSY", latch:try()) fails("TIMED_OUT", latch:acquire {wait = 0.05})
          eq(theirs:count_down(2), 1) eq(theirs:count_down(2), 0)
          eq(latch:acquire {wait = 20}, true) eq(latch:try(), true)
          eq(latch:count(), 0)
        end)
        -- who waits in a coroutine goes on when another process counts down to zero
        local client, other, opened = assert(dlock.open(url, {yield = hooks.woken})), assert(dlock.open(url)), 0
        local latch, theirs = client:lock("b", {kind = "latch"}), other:lock("b", {kind = "latch"})
        eq(theirs:set_count(1), true)
        for _ = 1, 20 do
          go(function() eq(latch:acquire(), true) opened = opened + 1 end)
        end
        go(function()
          wait_until(function() return client:stats().waiting == 20 end)
          eq(opened, 0)
          eq(theirs:count_down(1), 0)
        end)
        run_all(client)
        eq(opened, 20)
        """,
        redis_server.url,
    )


def test_multi(run: Run, redis_server: Server) -> None:
    run(
        BOTH
        + """
        both(function(client, other)
          local first, second = client:lock "a", client:lock("b", {kind = "fair"})
          local both, theirs = assert(client:multi {first, second}), other:lock("b", {kind = "fair", owner = 1})
          eq(both.kind, "multi") eq(both.name, "a+b")
          eq(both:with({wait = 20}, function()
            eq(first:state(), "held") eq(second:state(), "held")
            fails("BUSY", theirs:try())
            local largest = first:token() > second:token() and first:token() or second:token()
            eq(both:token(), largest)
          end), true)
          eq(theirs:acquire {wait = 20}, true)
          local good, err = both:try()
          eq(good, false) assert(err.message:find "'b'") eq(first:state(), "none")
          eq(theirs:release(), true)
          fails("DUPLICATE_NAME", client:multi {first, first}) fails("INVALID_ARGUMENT", client:multi {})
          fails("INVALID_ARGUMENT", client:multi {first, 7}) fails("INVALID_ARGUMENT", client:multi(first, 7))
          fails("INVALID_ARGUMENT", client:multi()) fails("INVALID_ARGUMENT", client:multi({first}, {owner = -1}))
        end)
        """,
        redis_server.url,
    )


def test_gate(run: Run, redis_server: Server) -> None:
    run(
        BOTH
        + """
        both(function(client, other)
          local lock, theirs = client:lock "a", other:lock("a", {owner = 1})
          eq(lock:open_gate(), false)
          eq(theirs:close_gate(20), true)
          local err = fails("GATE_CLOSED", lock:acquire())
          eq(err.code, 7)
          eq(theirs:open_gate(), true)
          eq(lock:with({wait = 20}, function() end), true)
        end)
        """,
        redis_server.url,
    )


# ---- luv


def test_what_asks_the_server_yields(run: Run, new_server: Callable[..., Server]) -> None:
    """With a hook, and the server stopped: each call waits in the hook, and its answer is the same as without one."""
    server = new_server()
    run(
        """
        local client, plain = nil, assert(dlock.open(url))
        local yields, stopped, pid = 0, false, tonumber(arg[2])
        client = assert(dlock.open(url, {yield = function()
          yields = yields + 1
          if stopped then stopped = false ffi.C.kill(pid, 18) end -- SIGCONT
          ffi.C.poll(nil, 0, 1)
        end}))
        local seats, latch, a = client:lock("seats", {kind = "semaphore"}), client:lock("latch", {kind = "latch"}), client:lock "a"
        assert(client:ping())
        local function yields_in(call)
          local before = yields
          stopped = true
          ffi.C.kill(pid, 19) -- SIGSTOP
          local results = {call()}
          assert(yields > before and not stopped, "it did not yield")
          return unpack(results, 1, 4)
        end
        eq(yields_in(function() return client:ping() end), true)
        eq(yields_in(function() return seats:set_permits(3) end), true)
        eq(yields_in(function() return seats:set_permits(3) end), false)
        eq(yields_in(function() return seats:add_permits(2) end), 5)
        eq(yields_in(function() return seats:available_permits() end), 5)
        eq(yields_in(function() return seats:drain_permits() end), 5)
        eq(yields_in(function() return latch:set_count(2) end), true)
        eq(yields_in(function() return latch:count_down(1) end), 1)
        eq(yields_in(function() return latch:count() end), 1)
        assert(a:acquire())
        eq(yields_in(function() return a:extend(60) end), true)
        local held, busy = a:try {owner = 77}
        local free, stranger = a:release {owner = 77}
        eq(held, false) eq(busy.retryable, true) eq(free, nil) eq(stranger.retryable, false)
        local seen = yields_in(function() return a:inspect() end)
        local same = plain:lock("a"):inspect()
        for name, value in pairs(same) do
          if name ~= "held_for" and name ~= "remaining" then eq(seen[name], value) end
        end
        assert(seen.remaining > 50 and seen.held_for <= same.held_for and seen.holder ~= "")
        local token, grant = a:token(), a:export_grant()
        eq(yields_in(function() return client:lock("a"):adopt_grant(grant) end), token)
        eq(yields_in(function() return a:close_gate(60) end), true)
        eq(yields_in(function() return a:open_gate() end), true)
        eq(yields_in(function() return a:open_gate() end), false)
        eq(yields_in(function() return a:force_release() end), true)
        eq(yields_in(function() return a:force_release() end), false)
        eq(yields_in(function() return client:transaction({"n"}, function(txn) return txn:incr "n" end) end), true)
        local good, n = client:transaction({"n"}, function(txn) return yields_in(function() return txn:get "n" end) end)
        eq(good, true) eq(n, "1")
        local caught, why = pcall(client.transaction, client, {"n"}, function(txn) error("no", 0) end)
        eq(caught, false) eq(why, "no")
        eq(client:transaction({"n"}, function(txn) assert(txn:get "none" == nil and txn:set("n", "")) end), true)
        eq(select(2, client:transaction({"n"}, function(txn) return txn:get "n" end)), "")
        assert(plain:lock("a"):acquire())
        fails("WRONG_KIND", yields_in(function() return client:lock("a", {kind = "latch"}):count() end))
        """,
        server.url,
        server.process.pid,
    )


def test_transactions_of_many_all_count(lua: Lua, redis_server: Server) -> None:
    text = """
        local client, calls = assert(dlock.open(url)), 0
        print "ready" io.flush() io.read()
        for _ = 1, 50 do
          local good, seen
          repeat
            good, seen = client:transaction({"count"}, function(txn)
              calls = calls + 1
              local count = tonumber(assert(txn:get "count" or "0"))
              assert(txn:set("count", tostring(count + 1)) and txn:incr("also", 2))
              return count
            end)
            if not good then eq(seen.name, "CONFLICT") end
          until good
          eq(type(seen), "number")
        end
        print(calls)
    """
    programs = [lua(text, redis_server.url) for _ in range(4)]
    for program in programs:
        says(program, "ready")
    for program in programs:
        tell(program)
    calls = [int(program.communicate(timeout=3 * WHILE)[0]) for program in programs]
    assert redis_server.command("GET", "count") == b"200" and redis_server.command("GET", "also") == b"400"
    assert sum(calls) > 200, "there was no conflict: nothing was shown"


@pytest.mark.parametrize("hook", ["nil", "function() end"])
def test_transaction(run: Run, redis_server: Server, hook: str) -> None:
    run(
        """
        local client, other = assert(dlock.open(url, {yield = HOOK})), assert(dlock.open(url))
        local function write(key, value) return assert(other:transaction({key}, function(t) t:set(key, value) end)) end
        local calls = 0
        local results = {client:transaction({"watched", "with \\0"}, function(txn, ...)
          eq(select("#", ...), 0)
          calls = calls + 1
          if calls < 3 then write("watched", "foreign " .. calls) end
          assert(txn:set("result", txn:get "watched", 60) and txn:set("empty", ""))
          return calls, nil, "x"
        end)}
        eq(calls, 3) eq(results[1], true) eq(results[2], 3) eq(results[3], nil) eq(results[4], "x")

        local large = ("x\\0"):rep(200000)
        assert(write("large", large))
        assert(client:transaction({"large", "none"}, function(txn)
          eq(select("#", txn:get "none"), 0) eq(txn:get "large", large) eq(txn:get "empty", "") eq(txn:get "result", "foreign 2")
          assert(txn:watch "late" and txn:incr("n", -5) and txn:incr "n" and txn:delete "large")
          fails("INVALID_ARGUMENT", txn:watch "later")
          fails("INVALID_ARGUMENT", txn:get "n")
        end))
        local kept
        assert(client:transaction({"n"}, function(txn) kept = txn eq(txn:get "n", "-4") eq(txn:get "large", nil) end))
        fails("INVALID_ARGUMENT", kept:get "n")

        calls = 0
        local good, err = client:transaction({"n"}, function() calls = calls + 1 write("n", "1") end, 3)
        eq(good, false) eq(err.name, "CONFLICT") eq(calls, 3) assert(err.message:find "^transaction at ", err.message)
        local raised = {}
        local caught, why = pcall(client.transaction, client, {"n"}, function(txn) txn:set("n", "2") error(raised) end)
        eq(caught, false) eq(why, raised)
        fails("NO_TRANSACTION", client:transaction({}, function(txn) eq(select(2, txn:set("n", "2")).name, "NO_TRANSACTION") end))
        fails("INVALID_ARGUMENT", client:transaction({""}, function() error "not here" end))
        assert(client:transaction({"n"}, function(txn) eq(txn:get "n", "1") end))
        fails("INVALID_ARGUMENT", client:transaction("n", print))
        fails("INVALID_ARGUMENT", client:transaction({"n"}))
        fails("INVALID_ARGUMENT", client:transaction({"n"}, print, 0))
        assert(client:transaction({"n"}, function(txn)
          fails("INVALID_ARGUMENT", txn.get(nil, "n"))
          fails("INVALID_ARGUMENT", txn:set("n", 2))
          fails("INVALID_ARGUMENT", txn:set("n", "2", -2))
          fails("INVALID_ARGUMENT", txn:incr("n", 0.5))
          fails("INVALID_ARGUMENT", txn:get(nil))
        end))
        client:close()
        fails("CLOSED", client:transaction({"n"}, print))
        """.replace("HOOK", hook),
        redis_server.url,
    )
    assert redis_server.command("GET", "n") == b"1" and 1 <= redis_server.command("TTL", "result") <= 60
    assert redis_server.command("TTL", "empty") == -1


def test_attempts_of_a_transaction_pause_in_the_hook(run: Run, redis_server: Server) -> None:
    """Between two attempts they wait for more than their own answers; after the last attempt they do not."""
    run(
        """
        local seen, waits, attempts = setmetatable({}, {__mode = "k"}), 0, 0
        local function hook(_, wait)
          if not seen[wait] then waits = waits + 1 end
          seen[wait] = true
          ffi.C.poll(nil, 0, 1)
        end
        local client, other = assert(dlock.open(url, {yield = hook})), assert(dlock.open(url))
        local function collide()
          attempts = attempts + 1
          assert(other:transaction({"n"}, function(txn) txn:incr "n" end))
        end
        fails("CONFLICT", client:transaction({"n"}, collide, 1))
        eq(attempts, 1) assert(waits <= 2, waits)
        fails("CONFLICT", client:transaction({"n"}, collide, 19))
        eq(attempts, 20) assert(waits > 2 * attempts, waits)
        """,
        redis_server.url,
    )


def test_luv(run: Run, redis_server: Server) -> None:
    """200 coroutines wait while the loop runs. It ends by itself afterwards. A wait in the main coroutine runs it."""
    run(
        """
        local uv = require "luv"
        local client = assert(dlock.open(url, {yield = require "dlock.luv"}))
        local other = assert(dlock.open(url))
        local theirs, count, inside, most, ticks = other:lock "a", 0, 0, 0, 0
        theirs:acquire()
        for number = 1, 200 do
          coroutine.wrap(function()
            local co = this_coroutine()
            local lock = assert(client:lock "a")
            assert(lock:with(function()
              inside = inside + 1
              most = math.max(most, inside)
              if number % 10 == 0 then
                local timer = uv.new_timer()
                timer:start(1, 0, function() timer:close() assert(coroutine.resume(co)) end)
                coroutine.yield()
              end
              inside, count = inside - 1, count + 1
            end))
          end)()
        end
        local timer = uv.new_timer()
        timer:start(1, 1, function()
          ticks = ticks + 1
          if ticks == 20 then
            eq(count, 0)
            theirs:release()
            timer:close()
          end
        end)
        uv.run()
        eq(count, 200) eq(most, 1) eq(ticks, 20) eq(client:waiting(), false)
        local lock = client:lock "a"
        theirs:acquire()
        fails("TIMED_OUT", lock:acquire {wait = 0.05})
        theirs:release()
        eq(lock:acquire(), true) eq(lock:release(), true)
        coroutine.wrap(function() theirs:acquire() fails("CLOSED", lock:acquire()) count = 0 end)()
        client:close()
        uv.run()
        eq(count, 0)
        """,
        redis_server.url,
    )


def test_luv_resumes_coroutines_in_the_loop(lua: Lua, redis_server: Server) -> None:
    """Not in the coroutine that read their answers: an error is then an error of a loop callback, and the loop ends in time."""
    program = lua(
        """
        local uv, other = require "luv", assert(dlock.open(url))
        local client, reached, taker = assert(dlock.open(url, {yield = require "dlock.luv"})), {}, nil
        local function start(name)
          coroutine.wrap(function()
            eq(client:lock(name):acquire(), true)
            reached[name] = true
            if name ~= "b" then return end
            print(coroutine.status(taker) ~= "normal" and "in the loop")
            error "of b"
          end)()
        end
        local function given(name) -- a coroutine waits for it and has it, and no callback of the loop heard so
          local theirs, acquired = other:lock(name), client:stats().acquired
          theirs:acquire()
          start(name)
          theirs:release()
          wait_until(function() return client:stats().acquired > acquired end)
        end
        assert(client:ping()) -- in the main coroutine
        uv.run()
        given "a"
        start "c"
        eq(reached.a, nil)
        uv.run()
        assert(reached.a and reached.c)
        given "b"
        taker = coroutine.create(function() client:ping() end)
        coroutine.resume(taker)
        uv.run()
        """,
        redis_server.url,
    )
    output, errors = program.communicate(timeout=WHILE)
    assert output == "in the loop\n" and "of b" in errors, (output, errors)


# ---- bad input


def test_bad_input(run: Run, redis_server: Server) -> None:
    run(
        """
        local bad = "INVALID_ARGUMENT"
        fails("INVALID_URL", dlock.open "http://x") fails("INVALID_URL", dlock.open "")
        fails(bad, dlock.open()) fails(bad, dlock.open(7)) fails(bad, dlock.open("redis://x\\0y"))
        fails(bad, dlock.open(url, 7))
        fails("UNKNOWN_OPTION", dlock.open(url, {lease = 1})) fails("INVALID_OPTION", dlock.open(url, {lease_ms = 1.5}))
        fails("INVALID_OPTION", dlock.open(url, {lease_ms = 0 / 0}))
        fails("INVALID_OPTION", dlock.open(url, {renew = "perhaps"}))
        for _, value in ipairs {{}, print, coroutine.create(print), 5LL, "a\\0b"} do
          fails(bad, dlock.open(url, {client_name = value}))
        end
        fails(bad, dlock.open(url, {[7] = 8})) fails(bad, dlock.open(url, {["lease_ms\\0"] = 8}))
        fails(bad, dlock.open(url, {yield = 7})) fails(bad, dlock.open(url, {on_event = "x"}))
        assert(not tostring(select(2, dlock.open("redis://:secret@x", {lease = 1}))):find "secret")

        local client = assert(dlock.open(url, {lease_ms = 1e4, renew = true}))
        fails(bad, client:lock()) fails(bad, client:lock(7)) fails(bad, client.lock "a") fails(bad, client:lock("a", 7))
        for _, name in ipairs {"", "a\\0b", ("x"):rep(1025)} do fails("INVALID_NAME", client:lock(name)) end
        for _, kind in ipairs {"nonsense", "", 1, 99, {}, print, true} do
          fails(bad, client:lock("a", {kind = kind}))
        end
        for _, owner in ipairs {-1, 1.5, 2 ^ 53, 1 / 0, 0 / 0, "1", {}, 5LL} do
          fails(bad, client:lock("a", {owner = owner}))
          fails(bad, client:lock("a"):try {owner = owner})
        end
        fails("UNKNOWN_OPTION", client:lock("a", {wait = 5})) fails("UNKNOWN_OPTION", client:lock("a", {yield = 1}))

        local lock = assert(client:lock "a")
        for _, wait in ipairs {-2, -0.001, 0 / 0, "5", {}, true} do fails(bad, lock:acquire {wait = wait}) end
        for _, tag in ipairs {0.5, 2 ^ 53, -2 ^ 53, "1", {}} do fails(bad, lock:submit {tag = tag}) end
        local err = fails(bad, lock:acquire {wiat = 5})
        assert(err.message:find "wiat" and err.code == -100 and err.retryable == false)
        fails(bad, lock:acquire(5)) fails(bad, lock.acquire()) fails(bad, lock.acquire(client))
        fails(bad, lock:try {wait = 1}) fails(bad, lock:adopt_grant()) fails(bad, lock:extend(-5))
        fails(bad, lock:with()) fails(bad, lock:with({}, 7)) fails(bad, lock:with(7, print))
        fails(bad, lock.with(print)) fails(bad, client:poll "x") fails(bad, client:close(-7))
        eq(lock:state(), "none")
        """,
        redis_server.url,
    )


def test_nonsense_never_crashes_nor_raises(run: Run, redis_server: Server) -> None:
    """Every method with every pair of arguments of each type: a result, or nil and an error.

    The methods come in any order: a grant may be exported before acquire waits for the end of its lease, so leases are short.
    """
    run(
        """
        local client = assert(dlock.open(url, {command_timeout_ms = 500, lease_ms = 1000}))
        local other = assert(dlock.open(url))
        local nonsense = {
          true, false, 0, -1, 1, 0.5, 1e300, -1e300, 0 / 0, 1 / 0, "", "x", "a\\0b", ("x"):rep(1e5), {}, {owner = {}},
          print, coroutine.create(print), io.stdout, 7LL, ffi.new "int[3]", ffi.new "void *", client, client:lock "b",
          newproxy(true), n = 27,
        }
        local calls = 0
        local function try(method, ...)
          local good, first, err = pcall(method, ...)
          if not good then error("raised: " .. tostring(first)) end
          assert(first ~= nil or err == nil or type(err.message) == "string")
          calls = calls + 1
        end
        local blocks = {acquire = true, close = true, poll = true, with = true, close_gate = true}
        for _, class in ipairs {getmetatable(client), getmetatable(client:lock "a")} do
          for name, method in pairs(class.__index) do
            local mine = class == getmetatable(client) and client or client:lock "a"
            for first = 1, nonsense.n do
              try(method, nonsense[first] ~= mine and nonsense[first] or nil)
              if not blocks[name] then
                for second = 1, nonsense.n, 3 do try(method, mine, nonsense[first], nonsense[second]) end
              end
              collectgarbage "step"
            end
          end
        end
        for first = 1, nonsense.n do
          for second = 1, nonsense.n do try(dlock.open, nonsense[first], nonsense[second]) end
        end
        assert(calls > 3000, calls)
        eq(other:lock("z"):with(function() return 1 end), true)
        """,
        redis_server.url,
    )


def test_each_process_pauses_for_itself(run: Run, redis_server: Server) -> None:
    """Contended transactions of two processes would collide again and again if both drew the same random numbers."""
    program = """
        local last, waits = nil, 0
        local function hook(client, wait)
          if wait ~= last then last, waits = wait, waits + 1 end
          client:dispatch()
        end
        local client, other = assert(dlock.open(url, {yield = hook})), assert(dlock.open(url))
        fails("CONFLICT", client:transaction({"k"}, function(transaction)
          io.write(waits, " ") -- two for each attempt, and one for each turn of a pause
          waits = 0
          eq(other:transaction({}, function(theirs) theirs:watch "k" return theirs:incr "k" end), true)
        end, 30))
    """
    draws = [run(program, redis_server.url).split() for _ in range(2)]
    assert len(draws[0]) == len(draws[1]) == 30
    assert draws[0] != draws[1]


def test_no_server(run: Run) -> None:
    run(
        """
        local client = assert(dlock.open(("redis://127.0.0.1:%s"):format(arg[2]), {connect_timeout_ms = 300}))
        local err = fails("UNREACHABLE", client:ping(2))
        eq(err.retryable, true) assert(err.message:find(arg[2], 1, true))
        fails("UNREACHABLE", client:lock("a"):try())
        """,
        "",
        str(free_port()),
    )


# ---- lifetime: states, collector, fork, signals


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_collected_in_any_order(run: Run, redis_server: Server, seed: int) -> None:
    run(
        """
        math.randomseed(tonumber(arg[2]))
        local things = {}
        for turn = 1, 300 do
          local client = assert(dlock.open(url, {yield = turn % 3 == 0 and coroutine.yield or nil}))
          things[math.random(60)] = client
          for _ = 1, math.random(4) do
            local lock = assert(client:lock("a" .. math.random(5)))
            things[math.random(60)] = lock
            if turn % 10 == 0 then
              things[math.random(60)] = coroutine.create(function() lock:acquire {wait = 0.01} end)
              lock:submit {wait = 0.01, owner = math.random(3)}
            end
          end
          for index = 1, 60 do
            local co = type(things[index]) == "thread" and things[index]
            if co and coroutine.status(co) == "suspended" then coroutine.resume(co) end
          end
          if turn % 7 == 0 then collectgarbage(math.random(2) == 1 and "step" or "collect") end
        end
        things = nil
        collectgarbage() collectgarbage()
        wait_until(function() collectgarbage() return status_of "Threads" <= tonumber(arg[3]) end)
        """,
        redis_server.url,
        seed,
        1 + SANITIZED,  # ThreadSanitizer has a thread of its own
    )


STATES = """
import ctypes, sys, time
lua = ctypes.CDLL("libluajit-5.1.so.2")
lua.luaL_newstate.restype = ctypes.c_void_p
lua.lua_tolstring.restype = ctypes.c_char_p
code = sys.stdin.buffer.read()
def threads():
    return int(next(line for line in open("/proc/self/status") if line.startswith("Threads")).split()[1])
before, extra = threads(), int(sys.argv[1])
for turn in range(20):
    state = ctypes.c_void_p(lua.luaL_newstate())
    lua.luaL_openlibs(state)
    assert lua.luaL_loadstring(state, code.replace(b"TURN", b"%d" % turn)) == 0, lua.lua_tolstring(state, -1, None)
    assert lua.lua_pcall(state, 0, 0, 0) == 0, lua.lua_tolstring(state, -1, None)
    assert turn > 0 or threads() > before + extra
    lua.lua_close(state)
end = time.monotonic() + 20
while threads() > before + extra:
    assert time.monotonic() < end, threads()
    time.sleep(0.005)
print("fine")
"""


def test_states_closed_while_waiting(redis_server: Server) -> None:
    """Twenty Lua states in one process, closed with waiting coroutines, held locks and unread events."""
    code = f"""
        local dlock = require "dlock"
        local client = assert(dlock.open("{redis_server.url}", {{yield = coroutine.yield}}))
        local plain = assert(dlock.open("{redis_server.url}"))
        local held = plain:lock "aTURN"
        assert(held:acquire())
        waiting = {{}}
        for number = 1, 10 do
          waiting[number] = coroutine.create(function() client:lock("aTURN"):acquire() end)
          assert(coroutine.resume(waiting[number]))
          client:lock("bTURN"):submit {{owner = number}}
        end
        repeat until client:stats().waiting >= 19 and plain:lock("bTURN"):inspect().holder ~= ""
        """
    command = [sys.executable, "-c", STATES, str(int(SANITIZED))]
    env = {**os.environ, **ENV}
    done = subprocess.run(command, input=code, env=env, text=True, capture_output=True, timeout=2 * WHILE)
    assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 0)


def test_leaving_with_everything_under_way(lua: Lua, redis_server: Server) -> None:
    text = """
        local client = assert(dlock.open(url, {yield = coroutine.yield}))
        local lock, other = client:lock "a", assert(dlock.open(url)):lock "a"
        other:acquire()
        for _ = 1, 10 do coroutine.wrap(function() lock:acquire() end)() end
        print "leaving"
        if arg[2] == "error" then error "x" end
        if arg[2] ~= "end" then os.exit(3, arg[2] == "close") end
        """
    for way, code in {"end": 0, "exit": 3, "close": 3, "error": 1}.items():
        program = lua(text, redis_server.url, way)
        says(program, "leaving")
        begin = time.monotonic()
        output, errors = program.communicate(timeout=WHILE)
        assert (output, program.returncode) == ("", code) and time.monotonic() - begin < 5
        assert bool(errors) == (way == "error")
        redis_server.command("FLUSHALL")


def test_fork(run: Run, redis_server: Server) -> None:
    """A used client belongs to the parent; an unused one works on both sides; the parent goes on."""
    run(
        """
        local used, fresh = assert(dlock.open(url)), assert(dlock.open(url))
        local lock, unused = used:lock "a", fresh:lock "b"
        lock:acquire()
        local token = lock:token()
        local pid = ffi.C.fork()
        if pid == 0 then
          local good, why = pcall(function()
            local err = fails("FORKED", lock:release())
            eq(err.code, -108)
            fails("FORKED", used:poll()) fails("FORKED", used:lock "c") fails("FORKED", lock:acquire {wait = 1})
            eq(unused:with(function() return 1 end), true)
            lock, used = nil, nil
            collectgarbage() collectgarbage()
            local own = assert(dlock.open(url)):lock "a"
            fails("BUSY", own:try())
          end)
          if not good then print(why) end
          ffi.C._exit(good and 0 or 1)
        end
        local status = ffi.new "int[1]"
        eq(ffi.C.waitpid(pid, status, 0), pid) eq(status[0], 0)
        eq(lock:token(), token) eq(lock:release(), true)
        eq(unused:with(function() return 1 end), true)
        """,
        redis_server.url,
    )


def test_ctrl_c_ends_a_wait_and_leaves_nothing_behind(lua: Lua, redis_server: Server) -> None:
    program = lua(
        """
        local client, other = assert(dlock.open(url)), assert(dlock.open(url))
        local lock, theirs = client:lock "a", other:lock "a"
        theirs:acquire()
        print "waiting"
        local good, why = pcall(lock.acquire, lock)
        eq(good, false) assert(why:find "interrupted!")
        eq(lock:state(), "none") eq(client:stats().waiting, 0)
        theirs:release()
        eq(theirs:acquire {wait = 20}, true)
        eq(client:stats().held, 0)
        """,
        redis_server.url,
    )
    says(program, "waiting")
    end = time.monotonic() + WHILE
    while not redis_server.command("EXISTS", "dlock_queue:{a}"):  # the line of waiting processes
        assert time.monotonic() < end
        time.sleep(0.005)
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=WHILE) == ("", "")
    assert program.returncode == 0


def test_an_error_from_a_debug_hook_never_takes_a_level_away(run: Run, redis_server: Server) -> None:
    """As Ctrl-C raises it, at each instruction of an acquisition in turn: earlier holds stay held."""
    run(
        """
        jit.off()
        local client = assert(dlock.open(url))
        local lock, ended = client:lock "a", 0
        assert(lock:acquire())
        local inside = 0
        for instructions = 1, 400 do
          local good, why = pcall(function()
            debug.sethook(function() debug.sethook() error "stop" end, "", instructions)
            local good = lock:acquire()
            debug.sethook()
            return good
          end)
          wait_until(function() return client:poll() == nil end)
          if not good then
            assert(tostring(why):find "stop", why)
            inside = inside + 1
          end
          local count = lock:hold_count()
          assert(count == 1 or count == 2, count)
          if count == 2 then assert(lock:release()) end
          eq(lock:hold_count(), 1)
          if good then ended = ended + 1 end
        end
        assert(inside > 50 and ended > 50)
        """,
        redis_server.url,
    )


# ---- the package


def stub(folder: pathlib.Path, code: str) -> str:
    path = folder / "libdlock.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)], input=code, text=True, check=True)
    return str(path)


REFUSED = """
local client, err = dlock.open "redis://localhost"
eq(client, nil) eq(err.name, "LIBRARY") eq(err.code, nil)
eq(select(2, dlock.version()).name, "LIBRARY")
print(err)
"""


def test_no_library(run: Run, tmp_path: pathlib.Path) -> None:
    said = run(REFUSED, DLOCK_LIBRARY="/nowhere/libdlock.so.1")
    assert said.startswith("No usable libdlock (as DLOCK_LIBRARY says). Tried /nowhere/libdlock.so.1: cannot open")
    env = {name: value for name, value in os.environ.items() if name not in ("DLOCK_LIBRARY", "LD_LIBRARY_PATH")}
    (tmp_path / "x.lua").write_text(PRELUDE + REFUSED)
    done = subprocess.run(["luajit", str(tmp_path / "x.lua")], env={**env, "LUA_PATH": ENV["LUA_PATH"]}, text=True,
                          capture_output=True, timeout=WHILE)
    if "No such file" in done.stdout:  # otherwise libdlock is installed here
        assert done.stdout.startswith("No usable libdlock (DLOCK_LIBRARY is not set). Tried libdlock.so.1: ")


@pytest.mark.house
def test_a_library_that_is_too_old_or_something_else(run: Run, tmp_path: pathlib.Path) -> None:
    old = "unsigned dlock_version(void) { return 7; } const char *dlock_version_string(void) { return \"0.0.7\"; }"
    path = stub(tmp_path, old)
    assert f"{path}: its version is 0.0.7, this binding needs 0.1 or later" in run(REFUSED, DLOCK_LIBRARY=path)
    for code, missing in {"int x;": "dlock_version", "unsigned dlock_version(void) { return 256; }": "dlock_"}.items():
        said = run(REFUSED, DLOCK_LIBRARY=stub(tmp_path, code))
        assert path in said and f"undefined symbol: {missing}" in said


def test_require_loads_nothing(run: Run) -> None:
    run(
        """
        local function loaded()
          local file = io.open "/proc/self/maps"
          local text = file:read "*a"
          file:close()
          return text:find(os.getenv "DLOCK_LIBRARY", 1, true) ~= nil
        end
        eq(loaded(), false)
        assert(dlock.version():find "^%d+%.%d+%.%d+$")
        eq(loaded(), true)
        """
    )


def test_modules_may_be_loaded_anew(run: Run, redis_server: Server) -> None:
    run(
        """
        local first = assert(dlock.open(url)):lock "a"
        for _ = 1, 400 do -- LuaJIT has room for 65536 types
          package.loaded.dlock, package.loaded["dlock.cdef"] = nil, nil
          dlock = require "dlock"
          assert(dlock.version())
        end
        local second = assert(dlock.open(url)):lock "a"
        eq(first:acquire(), true) fails("BUSY", second:try()) eq(first:release(), true) eq(second:try(), true)
        """,
        redis_server.url,
    )


@pytest.mark.house
def test_versions_agree() -> None:
    version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())
    assert version
    assert f'VERSION = "{version[1]}"' in (BINDING / "dlock.lua").read_text()
    assert f'version = "{version[1]}-1"' in (BINDING / f"dlock-{version[1]}-1.rockspec").read_text()


@pytest.mark.house
def test_the_binding_stays_thin() -> None:
    lines = (BINDING / "dlock.lua").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith("--")]
    assert len(code) <= 660
    assert not [line for line in lines if len(line) > 122]


@pytest.mark.house
def test_stale_declarations_are_refused(tmp_path: pathlib.Path) -> None:
    for name in "abi", "bindings", "src/base", "docs":
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, str(ROOT / "abi/gen.py"), "--root", str(tmp_path)]
    assert subprocess.run([*command, "check"]).returncode == 0
    path = tmp_path / "bindings/lua/dlock/cdef.lua"
    fresh = path.read_text()
    path.write_text(fresh.replace("int64_t wait_ms", "int32_t wait_ms", 1))
    done = subprocess.run([*command, "check"], capture_output=True, text=True)
    assert done.returncode == 1 and "cdef.lua is not fresh" in done.stderr
    assert subprocess.run([*command, "write"]).returncode == 0
    assert path.read_text() == fresh


@pytest.mark.house
def test_luarocks_make(run: Run, redis_server: Server, tmp_path: pathlib.Path) -> None:
    """From a copy of the folder alone, with what luarocks installed and nothing else."""
    shutil.copytree(BINDING, tmp_path / "lua")
    command = ["luarocks", "--lua-version=5.1", "make", "--tree", str(tmp_path / "tree")]
    env = clean_env(HOME=str(tmp_path))
    done = subprocess.run(command, cwd=tmp_path / "lua", env=env, capture_output=True, text=True, timeout=WHILE)
    assert done.returncode == 0, done.stderr
    run(
        """
        eq(package.searchpath("dlock", package.path), arg[2] .. "/dlock.lua")
        assert(package.searchpath("dlock.luv", package.path) and package.searchpath("dlock.ngx", package.path))
        eq(assert(dlock.open(url)):lock("a"):with(function() return 1 end), true)
        """,
        redis_server.url,
        tmp_path / "tree/share/lua/5.1",
        LUA_PATH=f"{tmp_path}/tree/share/lua/5.1/?.lua",
    )


# ---- nginx


NGINX = """
daemon off;
{user}
worker_processes {workers};
error_log {folder}/error.log info;
pid {folder}/nginx.pid;
env DLOCK_LIBRARY;
{modules}
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    lua_package_path "{binding}/?.lua;{folder}/?.lua;;";
    lua_shared_dict counts 1m;
    lua_check_client_abort on;
    init_by_lua_block {{ require "shared" }}
    init_worker_by_lua_block {{
        assert(ngx.timer.every(0.1, function()
            ngx.shared.counts:set("metrics " .. ngx.worker.id(), require("shared").client:metrics())
        end))
    }}
    server {{
        listen 127.0.0.1:{port};
        location /ping {{ content_by_lua_block {{ ngx.say("pong") }} }}
        location /count {{ content_by_lua_block {{
            local lock = assert(require("shared").client:lock "count")
            assert(lock:with({{wait = 30}}, function()
                local counts = ngx.shared.counts
                local count = counts:get "n" or 0
                ngx.sleep(0)
                counts:set("n", count + 1)
            end))
            ngx.say(lock:state())
        }} }}
        location /n {{ content_by_lua_block {{ ngx.say(ngx.shared.counts:get "n" or 0) }} }}
        location /collect {{ content_by_lua_block {{
            collectgarbage() collectgarbage()
            require("shared").client:dispatch()
            ngx.say "done"
        }} }}
        location /stats {{ content_by_lua_block {{
            local stats = require("shared").client:stats()
            ngx.say(stats.waiting, " ", stats.held, " ", stats.acquired)
        }} }}
        location ~ ^/metrics/(?<worker>[0-9]+)$ {{
            types {{ }} default_type "application/openmetrics-text; version=1.0.0; charset=utf-8";
            content_by_lua_block {{ ngx.print(ngx.shared.counts:get("metrics " .. ngx.var.worker)) }}
        }}
        location /wrong {{
            header_filter_by_lua_block {{
                local lock = require("shared").client:lock "wrong"
                ngx.header.answer = tostring(select(2, pcall(lock.acquire, lock)))
            }}
            content_by_lua_block {{ ngx.say "sent" }}
        }}
    }}
}}
"""

SHARED = """
-- Opened in the master, before it forks: not used there, it is a client of its own in each worker.
local dlock = require "dlock"
local hooks = {sleep = function() ngx.sleep(0.001) end, module = require "dlock.ngx"}
return {client = assert(dlock.open("URL", {yield = hooks.HOOK}))}
"""


class Nginx:
    def __init__(self, folder: pathlib.Path, redis_url: str, hook: str, workers: int) -> None:
        self.folder, self.port = folder, free_port()
        built = subprocess.run(["nginx", "-V"], stderr=subprocess.PIPE, text=True).stderr
        where = re.search(r"--modules-path=(\S+)", built)
        assert where
        modules = "\n".join(f"load_module {where[1]}/{name}.so;" for name in ("ndk_http_module", "ngx_http_lua_module"))
        text = NGINX.format(folder=folder, port=self.port, binding=BINDING, workers=workers, modules=modules,
                            user="user root;" if os.getuid() == 0 else "")
        (folder / "nginx.conf").write_text(text)
        (folder / "shared.lua").write_text(SHARED.replace("URL", redis_url).replace("HOOK", hook))
        command = ["setpriv", "--pdeathsig", "TERM", "nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
        self.process = subprocess.Popen([*command, "-e", str(folder / "error.log")], env={**os.environ, **ENV})

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2 * WHILE) as reply:
            self.headers = reply.headers
            return reply.read().decode().strip()

    def log(self) -> str:
        path = self.folder / "error.log"
        return path.read_text() if path.exists() else ""

    def ready(self) -> None:
        self.until(lambda: self.get("/ping") == "pong")

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + WHILE
        while True:
            try:
                if condition():
                    return
            except OSError:
                pass
            assert time.monotonic() < end and self.process.poll() is None, self.log()
            time.sleep(0.01)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGQUIT)
        try:
            self.process.wait(WHILE)
        finally:
            self.process.kill()


@pytest.fixture
def new_nginx(redis_server: Server) -> Iterator[Callable[..., Nginx]]:
    started: list[Nginx] = []

    def start(hook: str, workers: int) -> Nginx:
        started.append(Nginx(pathlib.Path(tempfile.mkdtemp(prefix="dlock-")), redis_server.url, hook, workers))
        started[-1].ready()
        return started[-1]

    yield start
    for nginx in started:
        nginx.stop()
        shutil.rmtree(nginx.folder)


HOLD = """
local lock = assert(assert(dlock.open(url)):lock "count")
lock:acquire()
print "held"
io.read()
lock:release()
print "free"
"""


@pytest.mark.parametrize("hook", ["sleep", "module"])
def test_nginx(new_nginx: Callable[..., Nginx], lua: Lua, redis_server: Server, hook: str) -> None:
    """300 requests, 60 at a time, on two workers with one client each, increment a counter that only the lock guards."""
    nginx = new_nginx(hook, 2)
    holder = lua(HOLD, redis_server.url)
    says(holder, "held")
    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        counting = [pool.submit(nginx.get, "/count") for _ in range(300)]
        for _ in range(20):  # requests wait, the workers do not
            assert nginx.get("/ping") == "pong" and nginx.get("/n") == "0"
        tell(holder)
        assert [done.result() for done in counting] == ["none"] * 300
    begin = time.monotonic()
    assert [nginx.get("/count") for _ in range(20)] == ["none"] * 20
    assert time.monotonic() - begin < 10  # each is woken at once, not when its request probes after a second
    assert nginx.get("/n") == "320"
    assert not re.search(r"\[(error|alert|crit|emerg)\]", nginx.log()), nginx.log()


def test_metrics_of_each_worker(new_nginx: Callable[..., Nginx], redis_server: Server) -> None:
    """Together they have counted all requests."""
    nginx = new_nginx("module", 2)
    for _ in range(40):
        assert nginx.get("/count") == "none"

    def acquired() -> int:
        counts = [re.search(r"^dlock_acquired_total (\d+)$", nginx.get(f"/metrics/{worker}"), re.M) for worker in (0, 1)]
        return sum(int(count[1]) for count in counts if count)  # a worker that has served no request has no client yet

    nginx.until(lambda: acquired() == 40)
    assert nginx.get("/metrics/0").endswith("# EOF") and nginx.headers["Content-Type"].startswith("application/openmetrics-text")


def test_nginx_gives_back_what_an_aborted_request_has(
    new_nginx: Callable[..., Nginx], lua: Lua, redis_server: Server
) -> None:
    for hook in "sleep", "module":
        nginx = new_nginx(hook, 1)
        holder = lua(HOLD, redis_server.url)
        says(holder, "held")
        with socket.create_connection(("127.0.0.1", nginx.port)) as client:
            client.sendall(b"GET /count HTTP/1.0\r\n\r\n")
            nginx.until(lambda: nginx.get("/stats").startswith("1 0 "))
        nginx.until(lambda: "client prematurely closed connection" in nginx.log())
        tell(holder)
        says(holder, "free")
        nginx.until(lambda: nginx.get("/collect") == "done" and nginx.get("/stats").startswith("0 0 "))
        assert nginx.get("/count") == "none" and nginx.get("/n") == "1"


def test_nginx_phases_that_cannot_wait(new_nginx: Callable[..., Nginx]) -> None:
    """An error explains it, and the lock stays free."""
    for hook in "sleep", "module":
        nginx = new_nginx(hook, 1)
        assert nginx.get("/wrong") == "sent"
        assert "API disabled in the context of header_filter_by_lua" in nginx.headers["answer"]
        nginx.until(lambda: nginx.get("/collect") == "done" and nginx.get("/stats").startswith("0 0 "))
