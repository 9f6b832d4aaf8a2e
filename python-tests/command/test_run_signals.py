"""dlock run and signals: what reaches the command, and what happens when dlock or the command is killed."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from typing import Any, Callable, Iterator

import pytest

from harness.build import clean_env
from harness.server import Server
from harness.waiting import wait_until
from shell import LONG, PROGRAM, Running, dlock, environment, gone, state_of

LISTENER = """
import signal, sys
def heard(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM: sys.exit(3)
for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"): signal.signal(getattr(signal, "SIG" + name), heard)
print("ready", flush=True)
while True: signal.pause()
"""
FAMILY = "sleep 600 & echo $$ $!; wait"
Start = Callable[..., Running]


@pytest.fixture
def start(redis_server: Server) -> Iterator[Start]:
    running: list[Running] = []

    def begin(*words: str, **more: Any) -> Running:
        running.append(Running("run", *words, url=redis_server.url, **more))
        return running[-1]

    yield begin
    for one in running:
        one.__exit__()


def family(job: Running) -> list[int]:
    """The command and its child, which sleeps."""
    return [int(pid) for pid in job.line().split()]


def children(pid: int) -> list[int]:
    return [int(one) for one in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# ---- what reaches the command


def test_signals_reach_the_command(start: Start) -> None:
    job = start("job", "--", sys.executable, "-c", LISTENER)
    assert job.line() == "ready"
    for name in ("INT", "HUP", "QUIT", "USR1", "USR2", "TERM"):
        job.process.send_signal(getattr(signal, f"SIG{name}"))
        assert job.line() == f"SIG{name}"
    assert job.code() == 3 and job.said() == ""


def test_the_whole_group_hears(start: Start) -> None:
    job = start("job", "--", "sh", "-c", FAMILY)
    pids = family(job)
    job.process.terminate()
    assert job.code() == 128 + signal.SIGTERM
    wait_until(lambda: all(map(gone, pids)))


def test_stop_and_continue(start: Start, redis_server: Server) -> None:
    """Without a terminal dlock itself goes on, and renews."""
    job = start("--lease", "600ms", "job", "--", "sh", "-c", "echo $$; exec sleep 600")
    pid = int(job.line())
    job.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: state_of(pid) == "T")
    token = redis_server.command("GET", "redisson_lock_token:{job}")
    renewed = wait_for_renewals(redis_server, 3)
    assert renewed and redis_server.command("GET", "redisson_lock_token:{job}") == token and state_of(job.process.pid) == "S"
    job.process.send_signal(signal.SIGCONT)
    wait_until(lambda: state_of(pid) == "S")
    job.process.terminate()
    assert job.code() == 128 + signal.SIGTERM


def wait_for_renewals(server: Server, count: int) -> bool:
    """What is left of the lease grew that often."""
    last, grown = server.command("PTTL", "job"), 0

    def look() -> bool:
        nonlocal last, grown
        left = server.command("PTTL", "job")
        grown, last = grown + (left > last), left
        return grown >= count

    return bool(wait_until(look))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_the_wait(start: Start, redis_server: Server, number: int) -> None:
    """Nothing runs, and the place in the line is given back."""
    holder = start("job", "--", "sh", "-c", "echo ready; exec sleep 600")
    assert holder.line() == "ready"
    waiter = start("job", "--", "echo", "ran")
    wait_until(lambda: redis_server.command("EXISTS", "dlock_queue:{job}"))
    waiter.process.send_signal(number)
    assert waiter.code() == -number and waiter.line() == "" and waiter.said() == ""
    wait_until(lambda: not redis_server.command("EXISTS", "dlock_queue:{job}"))


# ---- who is killed


def test_dlock_is_killed(start: Start, redis_server: Server) -> None:
    """The command dies, and what it started, too. The lock ends by its lease."""
    job = start("job", "--", "sh", "-c", FAMILY)
    pids = family(job)
    guard = set(children(job.process.pid)) - {pids[0]}
    assert len(guard) == 1
    job.process.kill()
    wait_until(lambda: all(gone(pid) for pid in [*pids, *guard]))
    assert job.code() == -signal.SIGKILL
    assert 0 < redis_server.command("PTTL", "job") <= 30_000


def test_dlock_is_killed_while_it_waits(start: Start, redis_server: Server) -> None:
    holder = start("job", "--", "sh", "-c", "echo ready; exec sleep 600")
    assert holder.line() == "ready"
    waiter = start("job", "--", "echo", "ran")
    wait_until(lambda: redis_server.command("EXISTS", "dlock_queue:{job}"))
    (guard,) = children(waiter.process.pid)
    waiter.process.kill()
    assert waiter.line() == ""
    wait_until(lambda: gone(guard))


def test_a_command_that_ignores_everything_dies_with_dlock(start: Start) -> None:
    job = start("job", "--", "sh", "-c", "trap '' TERM INT HUP QUIT; " + FAMILY)
    pids = family(job)
    job.process.kill()
    wait_until(lambda: all(map(gone, pids)))


def test_the_command_is_killed(start: Start, redis_server: Server) -> None:
    """The lock is released at once: a waiter gets it while its lease would last for hours."""
    job = start("--lease", "10h", "job", "--", "sh", "-c", "echo $$; exec sleep 600")
    pid = int(job.line())
    waiter = start("--wait", "1h", "job", "--", "echo", "mine")
    wait_until(lambda: redis_server.command("EXISTS", "dlock_queue:{job}"))
    os.kill(pid, signal.SIGKILL)
    assert waiter.line() == "mine" and waiter.code() == 0
    assert job.code() == 128 + signal.SIGKILL


def test_the_guard_is_killed(start: Start) -> None:
    """The command goes on, and still dies with dlock. There is a new guard: see test_run_stopping.py."""
    job = start("job", "--", "sh", "-c", "echo $$; read x; echo $x; exec sleep 600", stdin=-1)
    pid = int(job.line())
    (guard,) = set(children(job.process.pid)) - {pid}
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: gone(guard))
    assert job.process.stdin
    job.process.stdin.write("on\n")
    job.process.stdin.close()
    assert job.line() == "on"
    job.process.kill()
    wait_until(lambda: gone(pid))


def test_what_stays_behind_is_left_alone(start: Start) -> None:
    """As with a shell, a daemon that the command leaves behind goes on after it. The lock is released."""
    job = start("job", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    pid = int(job.line())
    try:
        assert job.code() == 0
        assert not gone(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_no_process_stays_behind(start: Start, redis_server: Server) -> None:
    job = start("job", "--", "sh", "-c", "echo $PPID; read x", stdin=-1)
    parent = int(job.line())
    assert parent == job.process.pid
    pids = children(parent)
    assert len(pids) == 2 and job.process.stdin
    job.process.stdin.close()
    job.code()
    assert all(map(gone, pids))
    assert dlock("run", "--wait", "0", "job", "--", "true", url=redis_server.url).returncode == 0


def test_the_first_process_of_a_container(redis_server: Server) -> None:
    """It waits for processes that lost their parent, ends as told by SIGTERM, and takes all with it when it is killed."""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, env=clean_env()).returncode:
        pytest.skip("no namespaces here")
    script = "sh -c 'sleep 0.1 & echo $!'; read x; while test -e /proc/$x; do sleep 0.01; done; echo gone; exec sleep 600"
    words = [*unshare, "--mount-proc", PROGRAM, "run", "job", "--", "sh", "-c", script]
    with subprocess.Popen(words, env=environment(redis_server.url), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout and job.stdin
        orphan = job.stdout.readline()
        (inside,) = wait_until(lambda: children(job.pid))
        job.stdin.write(orphan)
        job.stdin.close()
        assert job.stdout.readline() == "gone\n"  # it is no zombie
        assert len(children(inside)) == 2  # the command and the guard
        os.kill(inside, signal.SIGTERM)
        assert job.stdout.read() == "" and job.wait(LONG) == 128 + signal.SIGTERM
