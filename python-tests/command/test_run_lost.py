"""dlock run and a lock that is lost: the command ends before anybody else can hold the lock, and dlock says so."""
from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any, Callable

import pytest

from harness.server import Server
from harness.tally import tell
from harness.waiting import wait_until
from shell import Running, dlock, gone, is_sentence, state_of

Make = Callable[..., Any]

LEASE = 4.0
WARY = "?drift_ppm=200000"  # the lock is given up 0.9 s before anybody else can have it: a busy machine needs that
QUIET = "exec 2>/dev/null; "  # the shell would say how its children end
POLITE = QUIET + "trap 'echo term; exit 0' TERM; echo $$; while :; do sleep 0.01; done"
STUBBORN = QUIET + "trap 'echo term' TERM; echo $$; while :; do sleep 0.01; done"
TERMS = ["--lease", "4s", "--grace", "500ms"]


def sees_nobody(pid: int) -> list[str]:
    """A command that says whether the process of another one is alive."""
    return ["sh", "-c", f"grep -q '^State:.[^Z]' /proc/{pid}/status 2>/dev/null && echo both || echo alone"]


# ---- renewal fails


def test_the_server_is_killed(new_server: Make) -> None:
    """SIGTERM in time: before the last renewal can end."""
    server = new_server()
    with Running("run", *TERMS, "job", "--", "sh", "-c", POLITE, url=server.url + WARY) as job:
        job.line()
        server.kill()
        killed = time.monotonic()
        assert job.line() == "term" and time.monotonic() - killed < LEASE
        assert job.code() == 76
        assert is_sentence(job.said())


@pytest.mark.parametrize("lost, grace, said", [("term", "500ms", "term\n"), ("term", "1h", "term\n"), ("kill", "500ms", "")])
def test_nobody_else_runs_beside_it(redis_server: Server, new_proxy: Make, lost: str, grace: str, said: str) -> None:
    """A command that ignores SIGTERM is killed before the next holder begins, also when its grace is longer than the lease."""
    proxy = new_proxy(redis_server)
    with Running("run", "--lease", "4s", "--grace", grace, "--lost", lost, "job", "--", "sh", "-c", STUBBORN, url=proxy.url + WARY) as job:
        pid = int(job.line())
        proxy.refuse()
        tell(fired=proxy.strand())
        done = dlock("run", "--wait", "25s", "job", "--", *sees_nobody(pid), url=redis_server.url)
        assert (done.returncode, done.stdout) == (0, "alone\n")
        assert job.code() == 76 and job.process.stdout and job.process.stdout.read() == said


def test_what_the_command_started_ends_with_it(new_server: Make) -> None:
    """The command ends at SIGTERM, its child does not: that is killed, too."""
    server = new_server()
    script = "trap 'exit 0' TERM; (trap '' TERM; exec sleep 600) & echo $!; while :; do sleep 0.01; done"
    with Running("run", *TERMS, "job", "--", "sh", "-c", script, url=server.url) as job:
        pid = int(job.line())
        server.kill()
        assert job.code() == 76
        wait_until(lambda: gone(pid))


def test_a_stopped_command_hears_it(new_server: Make) -> None:
    server = new_server()
    with Running("run", *TERMS, "job", "--", "sh", "-c", POLITE, url=server.url) as job:
        pid = int(job.line())
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state_of(pid) == "T")
        server.kill()
        assert job.line() == "term" and job.code() == 76


def test_a_server_that_comes_back_in_time(redis_server: Server, new_proxy: Make) -> None:
    proxy = new_proxy(redis_server)
    with Running("run", "--lease", "3s", "--grace", "100ms", "job", "--", "sh", "-c", "echo ready; read x; exit 5", url=proxy.url, stdin=-1) as job:
        assert job.line() == "ready"
        before = redis_server.command("PTTL", "job")
        tell(fired=proxy.strand())
        wait_until(lambda: redis_server.command("PTTL", "job") < before - 200)
        wait_until(lambda: redis_server.command("PTTL", "job") > before - 100)  # renewed on a new connection
        assert job.process.stdin
        job.process.stdin.close()
        assert job.code() == 5 and job.said() == ""


def test_a_server_that_goes_before_the_release(new_server: Make) -> None:
    """The command ran under its lock: its code counts. dlock says what it could not do."""
    server = new_server()
    with Running("run", "job", "--", "sh", "-c", "echo ready; read x; exit 5", url=server.url, stdin=-1) as job:
        assert job.line() == "ready" and job.process.stdin
        server.kill()
        job.process.stdin.close()
        assert job.code() == 5 and is_sentence(job.said())


# ---- the lock is taken away

LISTENER = """
import os, select, sys
fd = int(os.environ["DLOCK_FD"])
print("ready", bool(select.select([fd], [], [], 0)[0]), flush=True)
select.select([fd], [], [])
print(os.read(fd, 100).decode().strip(), flush=True)
sys.exit(4)
"""


def test_force(redis_server: Server) -> None:
    with Running("run", *TERMS, "job", "--", "sh", "-c", POLITE, url=redis_server.url) as job:
        job.line()
        redis_server.command("DEL", "job")
        assert job.line() == "term" and job.code() == 76
        said = job.said()
        assert is_sentence(said) and "'job'" in said and "server" in said


def test_the_grace(redis_server: Server) -> None:
    """Nobody warned of this loss: the command has its grace all the same."""
    script = "trap 'echo term; read x; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    with Running("run", "--lease", "5s", "--grace", "1h", "job", "--", "sh", "-c", script, url=redis_server.url, stdin=-1) as job:
        assert job.line() == "ready" and job.process.stdin
        redis_server.command("DEL", "job")
        assert job.line() == "term"
        job.process.stdin.write("x\n")
        job.process.stdin.flush()
        assert job.line() == "saved" and job.code() == 76


def test_warn(redis_server: Server) -> None:
    """The command goes on, and learns of it by DLOCK_FD. dlock ends with 76, and says the command's code."""
    with Running("run", *TERMS, "--lost", "warn", "job", "--", sys.executable, "-c", LISTENER, url=redis_server.url) as job:
        assert job.line() == "ready False"
        redis_server.command("DEL", "job")
        assert job.line() == "lost" and job.code() == 76
        first, second = job.said().splitlines(keepends=True)
        assert is_sentence(first) and "goes on" in first and is_sentence(second) and "4" in second


def test_a_lost_lock_is_not_released(redis_server: Server) -> None:
    """Nor is what the next holder has."""
    with Running("run", "--lease", "600ms", "--lost", "warn", "job", "--", "sh", "-c", "echo ready; cat <&$DLOCK_FD; read x", url=redis_server.url, stdin=-1) as job:
        assert job.line() == "ready"
        redis_server.command("DEL", "job")
        with Running("run", "job", "--", "sh", "-c", "echo ready; exec sleep 600", url=redis_server.url) as other:
            assert other.line() == "ready" and job.line() == "lost" and job.process.stdin
            job.process.stdin.close()
            assert job.code() == 76
            assert redis_server.command("EXISTS", "job") == 1 and other.process.poll() is None


def test_max_hold(redis_server: Server) -> None:
    with Running("run", "--lease", "1s", "job", "--", "sh", "-c", POLITE, url=redis_server.url + "?max_hold_ms=300") as job:
        job.line()
        assert job.line() == "term" and job.code() == 76
        assert is_sentence(job.said())


# ---- dlock does not run


def test_stopped_past_the_lease(redis_server: Server) -> None:
    """The guard ends the command before the next holder begins."""
    with Running("run", *TERMS, "job", "--", "sh", "-c", STUBBORN, url=redis_server.url + WARY) as job:
        pid = int(job.line())
        job.stop()
        done = dlock("run", "--wait", "25s", "job", "--", *sees_nobody(pid), url=redis_server.url)
        assert (done.returncode, done.stdout) == (0, "alone\n")
        assert state_of(job.process.pid) == "T"
        job.resume()
        assert job.code() == 76 and is_sentence(job.said())


def test_stopped_for_a_part_of_the_lease(redis_server: Server) -> None:
    """Nothing happens to the command."""
    with Running("run", "--lease", "5s", "job", "--", "sh", "-c", "echo ready; read x; exit 5", url=redis_server.url, stdin=-1) as job:
        assert job.line() == "ready" and job.process.stdin
        job.stop()
        wait_until(lambda: redis_server.command("PTTL", "job") < 2_500)
        job.resume()
        wait_until(lambda: redis_server.command("PTTL", "job") > 3_000)
        job.process.stdin.close()
        assert job.code() == 5 and job.said() == ""


def test_stopped_past_the_lease_with_warn(redis_server: Server) -> None:
    """The command was to go on."""
    with Running("run", "--lease", "500ms", "--lost", "warn", "job", "--", "sh", "-c", "echo $$; read x; exit 0", url=redis_server.url, stdin=-1) as job:
        pid = int(job.line())
        job.stop()
        wait_until(lambda: not redis_server.command("EXISTS", "job"))
        job.resume()
        assert not gone(pid) and job.process.stdin
        job.process.stdin.close()
        assert job.code() == 76


def test_all_stopped_past_the_lease(redis_server: Server) -> None:
    """As when the machine sleeps, or a freezer has them: the command has its grace."""
    with Running("run", "--lease", "4s", "--grace", "3s", "job", "--", "sh", "-c", POLITE, url=redis_server.url) as job:
        pid = int(job.line())
        guards = [int(one) for one in open(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read().split() if int(one) != pid]
        try:
            job.stop()  # first: it would continue the guard
            for one in [*guards, pid]:
                os.kill(one, signal.SIGSTOP)
            wait_until(lambda: not redis_server.command("EXISTS", "job"))
            job.resume()  # it continues the command
        finally:
            for one in guards:
                os.kill(one, signal.SIGCONT)
        assert job.line() == "term" and job.code() == 76
