"""Many waiters of one lock are parked behind one that asks the server; then all waits end at a time. No end calls itself once per
waiter: the watchdog's stack is small, and so is that of the program here. And most of those who wait send nothing when they end.
"""
from __future__ import annotations

import collections
import os
import pathlib
import resource
import socket
import subprocess
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, until
from harness.build import BUILD, ROOT, native, preloadable
from harness.fake import LockServer
from harness.kinds import calls
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
KINDS = ["read", "write", "semaphore", "permit"]
ENDS = ["fork", "close", "abandon", "submit", "gate", "cancel", "timeout", "gone"]
STACK = 256 * 1024  # like that of the watchdog; what an end called itself for took 700 bytes per waiter
MANY, CROWD, LINE = 100_000, 5_000, 2_000
FLYING = 1024  # DLI_PIPE_FLYING


def small_stack() -> None:
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))


def asked(server: Server) -> bool:
    return bool(server.command("PUBSUB", "CHANNELS", "redisson_*") or server.command("EXISTS", "dlock_turns:{parked}"))


def shimmed() -> dict[str, str]:
    """The environment in which allocations fail on demand."""
    return {
        "LD_PRELOAD": " ".join(filter(None, [preloadable("shim.so"), os.environ.get("LD_PRELOAD")])),
        "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"])),
    }


def ended(server: Server, kind: str, count: int, end: str, **env: str) -> int:
    """All waits end. Returns how many commands were sent meanwhile."""
    program = subprocess.Popen(
        [native("parked"), server.unix_url, kind, str(count), end], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=small_stack, env={**os.environ, **env})  # fmt: skip
    assert program.stdin and program.stdout
    assert program.stdout.readline() == "first\n"
    until(lambda: asked(server) or kind == "fair")
    print(file=program.stdin, flush=True)
    assert program.stdout.readline() == "ready\n"
    if end == "gone":
        server.kill()
    print(file=program.stdin, flush=True)
    said, _ = program.communicate(timeout=300)
    assert program.returncode == 0, (said, program.returncode)
    return int(said.split()[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_is_freed(redis_server: Server, kind: str) -> None:
    ended(redis_server, kind, MANY, "free")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ENDS)
def test_all_waits_end(new_server: Make, kind: str, end: str) -> None:
    sent = ended(new_server(), kind, CROWD, end)
    if end in ("close", "abandon", "submit", "gate", "cancel"):
        assert sent <= CROWD // 20


@pytest.mark.parametrize("end", ["free", *ENDS])
def test_a_line_ends(new_server: Make, end: str) -> None:
    """The waiters of a fair lock all have a place on the server."""
    ended(new_server(), "fair", LINE, end)


def test_a_crowd_sends_a_script_once(new_server: Make) -> None:
    """All who leave the line are refused, as the server does not know the script: the first of them sends its text, the others their words."""
    server = new_server()
    ended(server, "fair", LINE, "close")
    assert calls(server) > LINE and 0 < calls(server, "eval") <= 20  # one for each script that was used
    tell(fired=1)


def test_a_slow_server_gets_no_more_than_it_answers(agent: Agent) -> None:
    """What it has not answered in time is not sent again on top: all but the first ones of a connection wait here."""
    sent: collections.Counter[int] = collections.Counter()

    def keep(link: socket.socket, _words: list[bytes]) -> bytes:
        sent[id(link)] += 1
        return b""

    with LockServer() as fake:
        fake.on("EVALSHA", keep)
        client = agent.open(fake, command_timeout_ms=2000)
        for number in range(CROWD):
            client.lock(f"slow{number}", kind="fair").submit_acquire(1, 0, number).ok
        assert "ACQUIRED" not in {client.event().type for _ in range(CROWD)}
        assert 0 < max(sent.values()) <= FLYING
        tell(fired=len(sent))


@pytest.mark.parametrize("kind", KINDS)
def test_no_memory_is_left(redis_server: Server, kind: str) -> None:
    """Each waiter that would ask learns that it cannot, and tells the next."""
    ended(redis_server, kind, MANY, "starved", **shimmed())


@mutants.each(mutants.PARKED)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(120)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, agents=True)
