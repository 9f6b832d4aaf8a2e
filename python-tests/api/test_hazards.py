"""Hazards of runtimes for a library that has threads, descriptors and locks of its own: signals, exits, forks, missing libraries.

More such tests are with their language: objects collected in any order, Lua states closed while waiting, exits and handlers
in test_python.py, test_lua.py, test_go.py (its race detector too) and test_fork_exit.py. ./dev test --full runs all of them
with the sanitizers preloaded; one program here runs under ASan in every run.
"""
from __future__ import annotations

import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY, ROOT, SANITIZED, clean_env
from harness.golang import GO, MODULE, Tool
from harness.server import Server, free_port
from harness.waiting import WHILE, wait_until

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
from dlock import Client

LANGUAGES = ["python", "asyncio", "lua", pytest.param("go", marks=pytest.mark.house)]  # go does not run with a preloaded sanitizer


@pytest.fixture
def client(redis_server: Server) -> Iterator[Client]:
    with Client(redis_server.url) as made:
        yield made


Program = subprocess.Popen[str]


def says(program: Program, line: str) -> None:
    assert program.stdout
    said = program.stdout.readline()
    assert said == line + "\n", said + program.communicate(timeout=WHILE)[1]


def tell(program: Program) -> None:
    assert program.stdin
    program.stdin.write("\n")
    program.stdin.flush()


# ---- programs. argv: the server's URL, then words. Each prints "held" when it has the lock "held", then waits for "wanted".

PYTHON = """
import dlock, os, signal, sys, threading, time

def stop(number, frame):
    sys.exit(0)

if "graceful" in sys.argv:
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
with dlock.Client(sys.argv[1]) as client:
    with client.lock("held"):
        print("held", flush=True)
        with client.lock("wanted"):
            print("wanted", flush=True)
"""

ASYNCIO = """
import asyncio, dlock.aio, signal, sys

async def main():
    if "graceful" in sys.argv:
        for number in signal.SIGTERM, signal.SIGINT:
            asyncio.get_running_loop().add_signal_handler(number, asyncio.current_task().cancel)
    async with dlock.aio.Client(sys.argv[1]) as client:
        async with client.lock("held"):
            print("held", flush=True)
            async with client.lock("wanted"):
                print("wanted", flush=True)

try:
    asyncio.run(main())
except asyncio.CancelledError:
    pass
"""

LUA = """
io.stdout:setvbuf "no"
local client = assert(require("dlock").open(arg[1]))
assert(client:lock("held"):acquire())
print "held"
assert(client:lock("wanted"):acquire())
print "wanted"
"""

GO_PROGRAM = f"""package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	dlock "{MODULE}"
)

func fail(err error) {{
	if err != nil {{
		fmt.Println(err)
		os.Exit(1)
	}}
}}

func main() {{
	ctx := context.Background()
	if len(os.Args) > 2 && os.Args[2] == "graceful" {{
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
		defer stop()
	}}
	client, err := dlock.Open(os.Args[1])
	fail(err)
	held, err := client.Mutex("held")
	fail(err)
	wanted, err := client.Mutex("wanted")
	fail(err)
	grant, err := held.Lock(ctx)
	fail(err)
	fmt.Println("held")
	if len(os.Args) > 2 && os.Args[2] != "graceful" {{
		for i := 0; i < 5; i++ {{
			go wanted.Lock(ctx)
			go held.Lock(ctx)
		}}
		for stats, _ := client.Stats(); stats.Waiting < 10; stats, _ = client.Stats() {{
			runtime.Gosched()
		}}
		if os.Args[2] == "exit" {{
			os.Exit(3)
		}}
		if os.Args[2] == "panic" {{
			panic("over")
		}}
		return
	}}
	if _, err := wanted.Lock(ctx); err == nil {{
		fmt.Println("wanted")
	}}
	fail(grant.Unlock(context.Background()))
	fail(client.Close())
}}
"""


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """The Go program, and an environment in which it finds the library."""
    if not GO:
        pytest.skip("there is no Go: apt-get install golang-go")
    tool, folder = Tool(), tmp_path_factory.mktemp("hazards")
    (folder / "main.go").write_text(GO_PROGRAM)
    needs = f'require {MODULE} v0.0.0\n\nreplace {MODULE} => "{ROOT}/bindings/go"\n'
    (folder / "go.mod").write_text("module hazards\n\ngo 1.19\n\n" + needs)
    tool("build", "-o", "hazards", ".", cwd=folder)
    return str(folder / "hazards"), {"LD_LIBRARY_PATH": tool.env["LD_LIBRARY_PATH"]}


class Start:
    """start(language, *words): the program of that language. start.script(text, *words): another one in Python. They end with the test."""

    def __init__(self, request: pytest.FixtureRequest, folder: pathlib.Path) -> None:
        self.request, self.folder, self.started = request, folder, list[Program]()

    def command(self, language: str) -> tuple[list[str], dict[str, str]]:
        if language == "go":
            program, env = self.request.getfixturevalue("go_program")
            return [program], env
        path = self.folder / f"program.{language}"
        path.write_text({"python": PYTHON, "asyncio": ASYNCIO, "lua": LUA}[language])
        return ["luajit" if language == "lua" else sys.executable, str(path)], {}

    def run(self, command: list[str], **env: str) -> Program:
        """Background jobs of a shell ignore SIGINT, and so do their children."""
        full = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "LUA_PATH": f"{ROOT}/bindings/lua/?.lua;;", **env}
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        command = ["env", "--default-signal=INT,TERM", *command]
        self.started.append(subprocess.Popen(command, text=True, env=full, cwd=self.folder, **pipes))
        return self.started[-1]

    def __call__(self, language: str, *words: str, **more: str) -> Program:
        command, env = self.command(language)
        return self.run([*command, *words], **env, **more)

    def script(self, text: str, *words: str, **env: str) -> Program:
        path = self.folder / f"script{len(self.started)}.py"
        path.write_text(textwrap.dedent(text))
        return self.run([sys.executable, str(path), *words], **env)


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Start]:
    made = Start(request, tmp_path)
    yield made
    for program in made.started:
        program.kill()
        program.communicate()


# ---- signals

FATAL = {"lua": {signal.SIGINT: 1}}  # the exit code, if it is not the signal itself


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_signal_ends_a_program(
    start: Start, client: Client, redis_server: Server, language: str, number: signal.Signals
) -> None:
    """The way its language does, and at once. Its locks come back when their leases end, and it blocks nobody."""
    wanted, mine = client.lock("wanted"), client.lock("held")
    wanted.acquire()
    program = start(language, redis_server.url + "?lease_ms=1000")
    says(program, "held")
    wait_until(lambda: wanted.inspect().waiters == 1)
    assert not mine.try_acquire()
    begin = time.monotonic()
    program.send_signal(number)
    assert program.communicate(timeout=WHILE)[0] == ""
    assert program.returncode == FATAL.get(language, {}).get(number, -number) and time.monotonic() - begin < 5
    assert mine.acquire(timeout=WHILE)
    wanted.release()
    with Client(redis_server.url) as other:
        assert other.lock("wanted").acquire(timeout=WHILE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("language", ["python", "asyncio", pytest.param("go", marks=pytest.mark.house)])
def test_a_handled_signal_gives_all_back(
    start: Start, client: Client, redis_server: Server, language: str, number: signal.Signals
) -> None:
    wanted = client.lock("wanted")
    wanted.acquire()
    program = start(language, redis_server.url, "graceful")
    says(program, "held")
    wait_until(lambda: wanted.inspect().waiters == 1)
    program.send_signal(number)
    assert program.communicate(timeout=WHILE) == ("", "")
    assert program.returncode == 0
    assert redis_server.command("EXISTS", "held") == 0 and wanted.inspect().waiters == 0


def test_control_c_with_threads_that_wait(start: Start, client: Client, redis_server: Server) -> None:
    """The main thread joins them. Closing the client ends their waits, so that the interpreter can end.

    Python may end without a thread whose join() was interrupted: the program waits for their output itself.
    """
    wanted = client.lock("wanted")
    wanted.acquire()
    program = start.script(
        """
        import dlock, os, sys, threading

        def work():
            try:
                client.lock("wanted").acquire()
            except dlock.Closed:
                os.write(1, b"closed\\n")
                over.release()

        over = threading.Semaphore(0)
        with dlock.Client(sys.argv[1]) as client, client.lock("held"):
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            try:
                print("joining", flush=True)
                for thread in threads:
                    thread.join()
            except KeyboardInterrupt:
                os.write(1, b"interrupted\\n")
        for thread in threads:
            over.acquire()
        """,
        redis_server.url,
    )
    says(program, "joining")
    wait_until(lambda: wanted.inspect().waiters == 1)
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=WHILE) == ("interrupted\n" + "closed\n" * 3, "")
    assert program.returncode == 0 and redis_server.command("EXISTS", "held") == 0


# ---- the interpreter's end


@pytest.mark.parametrize("way", ["sys.exit(3)", "os._exit(3)", "raise SystemExit(3)", "os.kill(os.getpid(), 9)"])
@pytest.mark.parametrize("place", ["block", "thread", "atexit", "del"])
def test_python_exits(start: Start, redis_server: Server, way: str, place: str) -> None:
    """From the block of a held lock, beside one held by a thread, from an atexit function, and before __del__ of a global that
    uses the library once the interpreter is half gone."""
    program = start.script(
        f"""
        import atexit, dlock, os, sys, threading

        def late():
            with client.lock("late") as lock:
                assert lock.held
            print("late", flush=True)

        class Late:
            def __del__(self, late=late):
                try:
                    late()
                except BaseException as error:  # at this time Python only prints them
                    print(type(error).__name__, flush=True)

        def hold():
            client.lock("theirs").acquire()
            ready.set()
            client.lock("theirs", owner=99).acquire()

        client, ready, place = dlock.Client(sys.argv[1]), threading.Event(), {place!r}
        if place == "atexit":
            atexit.register(late)
        if place == "del":
            thing = Late()
            thing.cycle = thing
        with client.lock("held"):
            if place == "thread":
                threading.Thread(target=hold, daemon=True).start()
                ready.wait()
            {way}
        """,
        redis_server.url,
    )
    output, errors = program.communicate(timeout=WHILE)
    assert errors == "" and program.returncode == (-9 if "kill" in way else 3)
    ends = "kill" in way or "_exit" in way
    assert redis_server.command("EXISTS", "held") == int(ends)  # otherwise the block released it
    if place == "del" and not ends:
        assert re.fullmatch(r"late\n|\w+Error\n", output)  # versions of Python differ in what is left of the globals
    else:
        assert output == ("late\n" if place == "atexit" and not ends else "")


@pytest.mark.no_tsan
def test_python_ends_in_the_middle_of_everything(start: Start, redis_server: Server) -> None:
    """Daemon threads lock, wait, submit and read events as fast as they can, while the interpreter ends."""
    programs = [
        start.script(
            """
            import dlock, sys, threading
            client = dlock.Client(sys.argv[1], lease_ms=2000)

            def turns(owner):
                lock = client.lock("a", owner=owner)
                while True:
                    with lock:
                        pass

            def submits():
                lock, turn = client.lock("b", owner=1), 0
                while True:
                    lock.submit_acquire(turn)
                    client.next_event()
                    lock.submit_release(turn)
                    client.next_event()
                    turn += 1

            def asks():
                while True:
                    client.stats(), client.lock("c").inspect(), client.lock("d").state

            for work in [lambda: turns(1), lambda: turns(2), submits, asks]:
                threading.Thread(target=work, daemon=True).start()
            while client.stats()["acquired"] < 50:
                pass
            print("busy", flush=True)
            sys.stdin.readline()
            """,
            redis_server.unix_url,
        )
        for _ in range(6)
    ]
    for program in programs:
        says(program, "busy")
        tell(program)
        assert program.communicate(timeout=WHILE) == ("", "")
        assert program.returncode == 0


@pytest.mark.house
@pytest.mark.parametrize("way, code", [("exit", 3), ("return", 0), ("panic", 2)])
def test_go_ends_with_held_locks_and_waiters(
    start: Start, client: Client, redis_server: Server, way: str, code: int
) -> None:
    client.lock("wanted").acquire()
    program = start("go", redis_server.url + "?lease_ms=1000", way)
    output, errors = program.communicate(timeout=WHILE)
    assert (output, program.returncode) == ("held\n", code) and ("panic: over" in errors) == (way == "panic")
    assert client.lock("held").acquire(timeout=WHILE)


@pytest.mark.no_tsan
def test_python_has_nothing_to_complain_about(start: Start, redis_server: Server) -> None:
    """In development mode, with every warning an error: no open resource, no deprecated call."""
    program = start.script(
        """
        import dlock, gc, sys, threading
        client = dlock.Client(sys.argv[1])
        with client.lock("a") as lock, client.fair_lock("b"), client.transaction_begin("k") as transaction:
            transaction.incr("k")
            transaction.commit()
            threading.Thread(target=client.lock("a").try_acquire).start()
        del lock, transaction
        gc.collect()
        print("fine")
        """,
        redis_server.url,
        PYTHONDEVMODE="1", PYTHONWARNINGS="error",
    )  # fmt: skip
    assert program.communicate(timeout=WHILE) == ("fine\n", "") and program.returncode == 0


@pytest.mark.parametrize("how, code", [("os.exit(3)", 3), ("os.exit(3, true)", 3), ("error 'x'", 255)])
def test_luv_ends_while_coroutines_wait(start: Start, client: Client, redis_server: Server, how: str, code: int) -> None:
    client.lock("wanted").acquire()
    (start.folder / "waits.lua").write_text(
        f"""
        local dlock, uv = require "dlock", require "luv"
        local client = assert(dlock.open(arg[1], {{yield = require "dlock.luv"}}))
        assert(client:lock("held"):acquire())
        for _ = 1, 5 do coroutine.wrap(function() client:lock("wanted"):acquire() end)() end
        local timer = uv.new_timer()
        timer:start(1, 1, function()
          if client:stats().waiting < 5 then return end
          timer:stop()
          {how}
        end)
        uv.run()
        """
    )
    program = start.run(["luajit", str(start.folder / "waits.lua"), redis_server.url + "?lease_ms=1000"])
    begin = time.monotonic()
    output, errors = program.communicate(timeout=WHILE)
    assert (output, program.returncode) == ("", code) and time.monotonic() - begin < 5, errors
    assert ("Uncaught Error" in errors) == (code == 255)
    assert client.lock("held").acquire(timeout=WHILE)


# ---- fork


APP = """
import dlock, os, pathlib
client = dlock.Client(os.environ["URL"], lease_ms=1000)
lock, masters = client.lock("count"), client.lock("master's")
masters.acquire()  # the client is used, with threads and connections, and a lock is held, before the workers are forked
token, path = masters.token, pathlib.Path(os.environ["COUNT"])
with lock:
    path.write_text("0")

def app(environ, start_response):
    what = environ["PATH_INFO"]
    if what == "/count":
        with lock:
            path.write_text(str(int(path.read_text()) + 1))
        said = "counted"
    elif what == "/hold":
        lock.acquire()
        said = str(os.getpid())
    elif what == "/masters":
        said = f"{masters.held} {masters.try_acquire()} {client.stats()['held']}"
    else:
        said = str(os.getpid())
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [said.encode()]

def worker_exit(server, worker):
    client.close()

def on_exit(server):  # in the master
    assert masters.held and masters.token == token
    masters.release()
    print("the master's lock is still its own", flush=True)
"""


class Gunicorn:
    def __init__(self, start: Start, redis_url: str, kind: str) -> None:
        self.port, self.count = free_port(), start.folder / "count"
        (start.folder / "app.py").write_text(APP)
        (start.folder / "conf.py").write_text("from app import on_exit, worker_exit\n")
        more = ["--threads", "3"] if kind == "gthread" else []
        command = ["-m", "gunicorn", "--preload", "--workers", "3", "--worker-class", kind, *more, "--config", "conf.py"]
        where = ["--bind", f"127.0.0.1:{self.port}", "--graceful-timeout", "10", "--log-level", "warning", "app:app"]
        self.process = start.run([sys.executable, *command, *where], URL=redis_url, COUNT=str(self.count))

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=WHILE) as reply:
            return reply.read().decode()

    def answers(self) -> bool:
        try:
            return bool(self.get("/"))
        except OSError:
            assert self.process.poll() is None, self.process.communicate()[1]
            return False

    def workers(self) -> set[int]:
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(pid) for pid in children.split()}


@pytest.mark.no_tsan
@pytest.mark.parametrize("kind", ["sync", "gthread"])
def test_gunicorn(start: Start, redis_server: Server, kind: str) -> None:
    """An application that used its client before the workers were forked: each worker has a client of its own."""
    server = Gunicorn(start, redis_server.url, kind)
    wait_until(server.answers)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert set(pool.map(server.get, ["/count"] * 120)) == {"counted"}
        assert set(pool.map(server.get, ["/masters"] * 20)) == {"False False 0"}
    assert server.count.read_text() == "120"
    # A worker is killed while it holds the lock: the lease ends, another worker takes its place.
    before, victim = server.workers(), int(server.get("/hold"))
    assert victim in before and redis_server.command("EXISTS", "count") == 1
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in server.workers() and len(server.workers()) == 3)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert set(pool.map(server.get, ["/count"] * 30)) == {"counted"}
    assert server.count.read_text() == "150"
    server.process.send_signal(signal.SIGTERM)
    output, errors = server.process.communicate(timeout=WHILE)
    assert server.process.returncode == 0 and output == "the master's lock is still its own\n", errors
    assert "Traceback" not in errors and redis_server.command("EXISTS", "count", "master's") == 0


MULTIPROCESSING = """
import dlock, multiprocessing, pathlib, sys

url, path, method = sys.argv[1:4]

def begin(url):
    global client
    client = dlock.Client(url)

def count(times):
    with_lock = client.lock("count")
    for _ in range(times):
        with with_lock:
            pathlib.Path(path).write_text(str(int(pathlib.Path(path).read_text()) + 1))
    return client.stats()["acquired"]

def take(lock):
    return lock.token

if __name__ == "__main__":
    context = multiprocessing.get_context(method)
    begin(url)
    pathlib.Path(path).write_text("0")
    mine = client.lock("parent's")
    mine.acquire()
    token = mine.token
    initializer = {} if method == "fork" else {"initializer": begin, "initargs": (url,)}  # fork: the client of the parent
    with context.Pool(3, **initializer) as pool:
        acquired = pool.map(count, [5] * 12, chunksize=1)
        print(pathlib.Path(path).read_text(), max(acquired) <= 60, mine.held and mine.token == token)
        try:
            pool.apply(take, (mine,))
        except TypeError as error:
            print(error)
    mine.release()
    client.close()
"""


@pytest.mark.no_tsan
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(start: Start, redis_server: Server, method: str) -> None:
    program = start.script(MULTIPROCESSING, redis_server.url, str(start.folder / "count"), method)
    output, errors = program.communicate(timeout=2 * WHILE)
    refusal = "A dlock.Lock cannot be copied or pickled: another process opens a client of its own."
    assert (output, program.returncode) == (f"60 True True\n{refusal}\n", 0), errors


@pytest.mark.house  # the allocator of AddressSanitizer is not made for it: a fork may copy its mutex while another thread has it
def test_forks_beside_threads_that_never_rest(start: Start, redis_server: Server) -> None:
    """os.fork at any instant of other threads' calls. The children use the parent's objects and end as interpreters do."""
    program = start.script(
        """
        import dlock, gc, os, signal, sys, threading
        client = dlock.Client(sys.argv[1])
        mine, stop = client.lock("mine"), threading.Event()
        mine.acquire()

        def work(number):
            lock = client.lock("busy", owner=number)
            while not stop.is_set():
                with lock:
                    client.stats()

        threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for turn in range(40):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                assert not mine.held and not mine.try_acquire()
                with client.lock(f"child {turn}") as lock:
                    assert lock.held
                if turn % 2:
                    client.lock("left").try_acquire()  # held while the child ends
                if turn % 3 == 0:
                    client.close()
                del lock, mine
                gc.collect()
                threads.clear()
                if turn % 4 == 0:
                    os._exit(0)
                sys.exit(0)  # with all finalizers
            assert os.waitpid(pid, 0)[1] == 0, turn
            assert mine.held
        stop.set()
        for thread in threads:
            thread.join()
        mine.release()
        client.close()
        print("fine")
        """,
        redis_server.url + "?lease_ms=2000",
        PYTHONWARNINGS="ignore::DeprecationWarning",
    )
    assert program.communicate(timeout=2 * WHILE) == ("fine\n", "")


@pytest.mark.house
def test_children_of_go_have_no_descriptors_of_the_library(start: Start, client: Client, redis_server: Server) -> None:
    """A child process inherits no descriptor. A child that outlives the program keeps no connection open."""
    wanted = client.lock("wanted")
    wanted.acquire()
    program = start("go", redis_server.url)
    says(program, "held")
    wait_until(lambda: wanted.inspect().waiters == 1)
    folder = f"/proc/{program.pid}/fd"
    kinds = {fd: os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder) if int(fd) > 2}
    assert any(name.startswith("socket:") for name in kinds.values())
    for fd, name in kinds.items():
        flags = re.search(r"^flags:\s*(\d+)", pathlib.Path(f"/proc/{program.pid}/fdinfo/{fd}").read_text(), re.M)
        assert flags and int(flags[1], 8) & os.O_CLOEXEC, name


# ---- the library is missing, too old, or a different one


def stub(folder: pathlib.Path, version: int, text: str, symbols: str) -> None:
    """A library of the right name with every function of the ABI; all return 0, except the version. symbols: the version script, by which
    the loader knows what a program needs.
    """
    names = re.findall(r"^function (\w+):", (ROOT / "abi/dlock.sigs").read_text(), re.M)
    assert len(names) > 50
    code = [f"void *{name}(void) {{ return 0; }}" for name in names if not name.startswith("dlock_version")]
    code += [f"unsigned dlock_version(void) {{ return {version}; }}"]
    code += [f'const char *dlock_version_string(void) {{ return "{text}"; }}']
    path, script = folder / "libdlock.so.1", folder / "symbols.map"
    script.write_text(symbols)
    flags = ["-Wl,-soname,libdlock.so.1", f"-Wl,--version-script={script}"]
    command = ["gcc", "-w", "-shared", "-fPIC", *flags, "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input="\n".join(code), text=True, check=True, env=clean_env())


REFUSED = {
    "missing": {
        "python": r"\S*LibraryError: No usable libdlock \(DLOCK_LIBRARY is not set\)\. Tried libdlock\.so\.1: cannot open .*",
        "lua": r"luajit: No usable libdlock \(DLOCK_LIBRARY is not set\)\. Tried libdlock\.so\.1: cannot open .*",
        "go": r"\S+: error while loading shared libraries: libdlock\.so\.1: cannot open shared object file: .*",
    },
    "old": {
        "python": r"\S*LibraryError: No usable libdlock .*Tried libdlock\.so\.1: its version is 0\.0\.9, .* needs 0\.1 or later",
        "lua": r"luajit: No usable libdlock .*Tried libdlock\.so\.1: its version is 0\.0\.9, .* needs 0\.1 or later",
        "go": r"dlock: libdlock 0\.0\.9 was loaded, which is too old for this binding",
    },
    "older": {
        "python": r"\S*LibraryError: No usable libdlock .*Tried libdlock\.so\.1: its version is 0\.0\.9, .* needs 0\.1 or later",
        "lua": r"luajit: No usable libdlock .*Tried libdlock\.so\.1: its version is 0\.0\.9, .* needs 0\.1 or later",
        "go": r"\S+: \S+/libdlock\.so\.1: version `DLOCK_0\.1' not found \(required by \S+\)",
    },
    "text": {
        "python": r"\S*LibraryError: No usable libdlock .*Tried .*libdlock\.so\.1: .*(file too short|invalid ELF header)",
        "lua": r"luajit: No usable libdlock .*Tried .*libdlock\.so\.1: .*(file too short|invalid ELF header)",
        "go": r"\S+: error while loading shared libraries: .*libdlock\.so\.1: (file too short|invalid ELF header)",
    },
}


@pytest.mark.house
@pytest.mark.parametrize("case", list(REFUSED))
@pytest.mark.parametrize("language", ["python", "lua", "go"])
def test_no_usable_library(start: Start, language: str, case: str) -> None:
    """One message, which names what was tried: by the library's name, as on a machine where it is installed."""
    folder = start.folder / "lib"
    folder.mkdir()
    if case.startswith("old"):
        stub(folder, 9, "0.0.9", "DLOCK_0.0 { *; };" if case == "older" else (ROOT / "abi/dlock.map").read_text())
    elif case == "text":
        (folder / "libdlock.so.1").write_text("This is no library.\n" * 100)
    command, _ = start.command(language)
    if language == "lua":
        (start.folder / "program.lua").write_text("local _, err = require('dlock').open(arg[1])\nerror(err.message, 0)\n")
    env = {name: value for name, value in os.environ.items() if name != "DLOCK_LIBRARY"}
    env |= {"PYTHONPATH": str(ROOT / "bindings/python"), "LUA_PATH": f"{ROOT}/bindings/lua/?.lua;;"}
    env["LD_LIBRARY_PATH"] = str(folder)
    done = subprocess.run([*command, "redis://localhost"], env=env, text=True, capture_output=True, timeout=WHILE)
    if case == "missing" and "libdlock" not in done.stdout + done.stderr:
        pytest.fail("libdlock is installed on this machine: nothing is missing")
    said = (done.stdout + done.stderr).strip().splitlines()
    told = [line for line in said if "libdlock" in line and not line.startswith(" ")]
    assert done.returncode not in (0, -signal.SIGSEGV) and len(told) == 1, said
    assert re.fullmatch(REFUSED[case][language], told[0]), told[0]


# ---- a sanitizer in the process


SANITIZED_PROGRAM = """
import dlock, gc, os, sys, threading
client = dlock.Client(sys.argv[1])
with client.lock("a") as lock:
    threads = [threading.Thread(target=lambda: client.lock("a").acquire(timeout=0.1)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pid = os.fork()
    if pid == 0:
        with client.lock("b"):
            pass
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
threading.Thread(target=client.lock("a", owner=1).acquire, daemon=True).start()
threading.Thread(target=client.lock("a", owner=2).acquire, daemon=True).start()
while client.stats()["waiting"] < 1:
    pass
print("fine", flush=True)
"""


@pytest.mark.full
@pytest.mark.house
@pytest.mark.timeout(300)
def test_asan_is_preloaded(start: Start, redis_server: Server, tmp_path: pathlib.Path) -> None:
    """A library with AddressSanitizer in interpreters without it: no report, not at exit either."""
    build = ROOT / "build/address"  # as ./dev test --full leaves it
    if not build.exists():
        build = tmp_path / "build"
        setup = ["meson", "setup", build, ROOT, "-Dtests=false", "-Ddemo=false", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
        subprocess.run(setup, check=True, env=clean_env(), stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", build, "libdlock.so.1"], check=True, env=clean_env(), stdout=subprocess.DEVNULL)
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, text=True, capture_output=True).stdout.strip()
    env = {"LD_PRELOAD": os.path.realpath(found), "DLOCK_LIBRARY": str(build / "libdlock.so.1"), "ASAN_OPTIONS": "detect_leaks=0"}
    program = start.script(SANITIZED_PROGRAM, redis_server.url + "?lease_ms=1000", **env)
    assert program.communicate(timeout=2 * WHILE) == ("fine\n", "")
    assert program.returncode == 0
    for command, _ in start.command("lua"), start.command("go"):
        redis_server.command("FLUSHALL")
        program = start.run([*command, redis_server.url], LD_LIBRARY_PATH=str(build), **env)
        assert program.communicate(timeout=2 * WHILE) == ("held\nwanted\n", "")
        assert program.returncode == 0
