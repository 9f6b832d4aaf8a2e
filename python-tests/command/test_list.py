"""dlock_client_list and dlock list: the names of locks on one server, behind Sentinel, on a cluster and on a quorum."""
from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import tempfile
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY
from harness.cluster import Cluster
from harness.fake import FakeServer
from harness.quorum import Quorum
from harness.sentinel import Watched
from harness.server import Server
from shell import PROGRAM, Running, dlock, environment, is_sentence

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock as binding
from dlock import _abi
from dlock._lib import library

Make = Callable[..., Any]
INVALID_ARGUMENT, BUFFER_TOO_SMALL, PROTOCOL_ERROR, UNREACHABLE, CLOSED = -100, -109, -306, -300, -107


class Lister:
    """The two calls, as C sees them."""

    def __init__(self, url: str, **options: Any) -> None:
        self.client = binding.Client(url, **options)
        self.handle, self.lib = self.client._handle, library()
        self.error = self.lib.dlock_error_new()

    def call(self, cursor: int, size: int = 65536, timeout: int = -1) -> tuple[int, list[str], int, int]:
        """Status, names, what they take, the next cursor."""
        buffer, used, following = (ctypes.c_uint8 * size)(), ctypes.c_size_t(), ctypes.c_int64(-7)
        status = self.lib.dlock_client_list(self.handle, cursor, timeout, buffer, size, ctypes.byref(used), ctypes.byref(following), self.error)
        return status, bytes(buffer[: used.value]).decode().split("\0")[:-1] if status == 0 else [], used.value, following.value

    def message(self) -> str:
        return self.lib.dlock_error_message(self.error).decode()

    def all(self, step: Callable[[int], tuple[int, list[str], int, int]] | None = None) -> list[str]:
        names: list[str] = []
        cursor, calls = 0, 0
        while True:
            status, some, _, cursor = (step or self.call)(cursor)
            assert status == 0 and cursor >= 0, self.message()
            names, calls = names + some, calls + 1
            if cursor == 0:
                return names
            assert calls < 100_000

    def submitted(self, cursor: int) -> tuple[int, list[str], int, int]:
        event, field = self.lib.dlock_event_new(), (ctypes.c_int64 * _abi.DLOCK_FIELD_COUNT)()
        assert self.lib.dlock_client_submit_list(self.handle, cursor, -1, 17, self.error) == 0
        assert self.lib.dlock_client_next(self.handle, 10_000, event, self.error) == 0
        self.lib.dlock_event_unpack(event, field, len(field), None, None)
        assert (field[_abi.DLOCK_FIELD_TYPE], field[_abi.DLOCK_FIELD_TAG]) == (_abi.DLOCK_EVENT_DONE, 17)
        buffer, used = (ctypes.c_uint8 * 65536)(), ctypes.c_size_t()
        assert self.lib.dlock_event_data(event, buffer, len(buffer), ctypes.byref(used), None) == 0
        return field[_abi.DLOCK_FIELD_STATUS], bytes(buffer[: used.value]).decode().split("\0")[:-1], used.value, field[_abi.DLOCK_FIELD_VALUE]

    def close(self) -> None:
        self.client.close()


@pytest.fixture
def new_lister() -> Iterator[Callable[..., Lister]]:
    made: list[Lister] = []

    def make(url: str, **options: Any) -> Lister:
        made.append(Lister(url, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


NAMES = ["job", "two words", "{tag}rest", "a{b}c", "ключ", "x" * 1024, "team:job"]


def use(client: binding.Client, names: list[str]) -> None:
    for name in names:
        with client.lock(name):
            pass


# ---- the call


def test_every_name_once_it_was_granted(redis_server: Server, new_lister: Make) -> None:
    lister = new_lister(redis_server.url)
    assert lister.all() == []
    redis_server.command("MSET", "other", "1", "redisson_lock_token:", "1", "dlock_gate:{other}", "1")
    use(lister.client, NAMES)
    with lister.client.write_lock("rw"):
        assert sorted(lister.all()) == sorted([*NAMES, "rw"]) == sorted(lister.all(lister.submitted))


def test_a_namespace(redis_server: Server, new_lister: Make) -> None:
    use(new_lister(redis_server.url).client, ["team:job", "team:", "team", "teams:job", "job"])
    lister = new_lister(redis_server.url, namespace="team")
    use(lister.client, ["own"])
    assert sorted(lister.all()) == ["job", "own"]
    assert lister.client.lock(lister.all()[0]).inspect().holder == ""  # such a name is one of this client


def test_many_names(redis_server: Server, new_lister: Make) -> None:
    """In many calls, among other keys. Each name that is there all the time comes at least once."""
    lister = new_lister(redis_server.url)
    with redis_server.client() as redis:
        redis.pipeline(*(["SET", f"redisson_lock_token:{{n{i}}}" if i % 2 else f"other{i}", i] for i in range(20_000)))
        for i in range(20_000, 40_000, 500):  # the server's table grows meanwhile
            redis.command("SET", f"other{i}", i)
    steps = []

    def step(cursor: int) -> tuple[int, list[str], int, int]:
        steps.append(lister.call(cursor))
        return steps[-1]

    assert set(lister.all(step)) == {f"n{i}" for i in range(1, 20_000, 2)}
    assert len(steps) > 20 and max(len(names) for _, names, _, _ in steps) < 2_000


def test_bad_input(redis_server: Server, new_lister: Make) -> None:
    lister = new_lister(redis_server.url)
    for cursor in (-1, 1 << 48, -(1 << 63), (1 << 63) - 1):
        assert lister.call(cursor)[0] == INVALID_ARGUMENT and "cursor" in lister.message()
        assert lister.lib.dlock_client_submit_list(lister.handle, cursor, -1, 1, None) == INVALID_ARGUMENT
    assert lister.call(0, timeout=-2)[0] == INVALID_ARGUMENT
    assert lister.lib.dlock_client_list(None, 0, -1, None, 0, None, None, None) == INVALID_ARGUMENT
    assert lister.lib.dlock_client_list(lister.handle, 0, -1, None, 5, None, None, None) == INVALID_ARGUMENT
    assert lister.lib.dlock_client_list(lister.handle, 0, -1, None, 0, None, None, None) == 0


def test_a_buffer_that_is_too_small(redis_server: Server, new_lister: Make) -> None:
    lister = new_lister(redis_server.url)
    use(lister.client, ["job"])
    assert lister.call(0, 3) == (BUFFER_TOO_SMALL, [], 4, -7)
    assert lister.call(0, 4) == (0, ["job"], 4, 0)


@pytest.mark.parametrize(
    "reply", [b":1\r\n", b"*0\r\n", b"*2\r\n$1\r\nx\r\n*0\r\n", b"*2\r\n$20\r\n99999999999999999999\r\n*0\r\n", b"*2\r\n$15\r\n281474976710656\r\n*0\r\n", b"*2\r\n:0\r\n*0\r\n", b"*2\r\n$1\r\n0\r\n:5\r\n"]
)
def test_a_server_that_answers_otherwise(new_lister: Make, reply: bytes) -> None:
    with FakeServer() as fake:
        fake.on("SCAN", reply)
        lister = new_lister(fake.url)
        assert lister.call(0)[0] == PROTOCOL_ERROR


def test_no_server_and_a_closed_client(tmp_path, new_lister: Make) -> None:
    lister = new_lister(f"redis+unix://{tmp_path}/no.sock")
    assert lister.call(0, timeout=500)[0] == UNREACHABLE and "no.sock" in lister.message()
    lister.client.close()
    assert lister.call(0)[0] == CLOSED


def test_the_right_that_it_needs(redis_server: Server, new_lister: Make) -> None:
    use(new_lister(redis_server.url).client, ["job"])
    for rules, status in (("+scan", 0), ("+get", -301)):
        redis_server.command("ACL", "SETUSER", "lister", "reset", "on", ">secret", "resetkeys", "-@all", "+ping", "+client|setname", rules)
        lister = new_lister(f"redis://lister:secret@127.0.0.1:{redis_server.port}")
        assert lister.call(0)[:2] == (status, ["job"] if status == 0 else [])
    redis_server.command("ACL", "DELUSER", "lister")


def test_cut_while_it_lists(redis_server: Server, new_proxy: Make, new_lister: Make) -> None:
    proxy = new_proxy(redis_server)
    lister = new_lister(proxy.url)
    use(lister.client, ["job"])
    seen = proxy.lose_reply("SCAN")
    assert lister.all() == ["job"] and seen.count == 1  # it is asked again


def test_behind_sentinels(new_lister: Make) -> None:
    with Watched() as up:
        lister = new_lister(up.url)
        use(lister.client, NAMES)
        assert sorted(lister.all()) == sorted(NAMES)


@pytest.mark.timeout(180)
def test_on_a_cluster(new_lister: Make) -> None:
    """Every primary is asked."""
    names = [f"n{i}" for i in range(200)]
    with Cluster() as up:
        lister = new_lister(up.url)
        assert lister.all() == []
        use(lister.client, names)
        assert sorted(lister.all()) == sorted(names) == sorted(lister.all(lister.submitted))
        assert lister.call(1 << 61)[0] == INVALID_ARGUMENT
        fresh = new_lister(up.url)  # has no map yet
        assert sorted(fresh.all()) == sorted(names)
        assert sorted(json.loads(line)["name"] for line in dlock("list", "--names", "--json", url=up.url).stdout.splitlines()) == sorted(names)


def test_on_a_quorum(new_lister: Make) -> None:
    """Every server is asked; the command shows each name once."""
    with Quorum(3) as up:
        lister = new_lister(up.url)
        use(lister.client, ["a", "b"])
        assert set(lister.all()) == {"a", "b"} == set(lister.all(lister.submitted)) and len(lister.all()) > 2
        assert dlock("list", "--names", url=up.url).stdout == "a\nb\n"
        up.nodes[0].kill()
        answers = [lister.call(server << 48, timeout=1000)[:2] for server in range(3)]  # in an order of the library's
        assert sorted((status, sorted(names)) for status, names in answers) == [(UNREACHABLE, []), (0, ["a", "b"]), (0, ["a", "b"])]


# ---- the command


@pytest.fixture
def held(redis_server: Server) -> Iterator[None]:
    with Running("run", "job", "--", "sh", "-c", "echo ready; exec sleep 600", url=redis_server.url) as one:
        assert one.line() == "ready"
        assert dlock("run", "free one", "--", "true", url=redis_server.url).returncode == 0
        assert dlock("semaphore", "set", "seats", "3", url=redis_server.url).returncode == 0
        yield


def listed(server: Server, *words: str) -> list[str]:
    done = dlock("list", *words, url=server.url)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(":")[0] for line in done.stdout.splitlines()]


def test_list(redis_server: Server, held: None) -> None:
    assert listed(redis_server) == ["job"] and listed(redis_server, "--all") == ["free one", "job"] == listed(redis_server, "--names")
    assert listed(redis_server, "--all", "f*") == ["free one"] and listed(redis_server, "--all", "[a-e]*") == []
    (seen,) = [json.loads(line) for line in dlock("list", "--json", url=redis_server.url).stdout.splitlines()]
    assert (seen["name"], seen["held"], seen["kind"]) == ("job", True, "mutex")
    redis_server.command("DEL", "job")
    redis_server.command("RPUSH", "job", "another program's")
    assert listed(redis_server, "--all") == ["free one"]


def test_list_refuses(redis_server: Server) -> None:
    for words in (["a", "b"], ["--nonsense"], ["--kind", "mutex"]):
        done = dlock("list", *words, url=redis_server.url)
        assert done.returncode == 64 and is_sentence(done.stderr)


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_million_names_block_nobody(new_server: Make) -> None:
    """They come in small parts, and another client has its round trips in between."""
    server, trips = new_server(), 0
    with tempfile.TemporaryFile() as names, server.client(timeout=120) as redis:
        redis.command("EVAL", "for i = 1, 1000000 do redis.call('SET', 'redisson_lock_token:{name' .. i .. '}', i) end", 0)
        lister = subprocess.Popen([PROGRAM, "list", "--names"], env=environment(server.url), stdout=names)
        while lister.poll() is None:
            redis.command("PING")
            trips += 1
        names.seek(0)
        assert lister.returncode == 0 and names.read().count(b"\n") == 1_000_000
        parts = int(re.search(rb"cmdstat_scan:calls=(\d+)", redis.command("INFO", "commandstats"))[1])  # type: ignore[index]
    print(f"{parts} parts, {trips} round trips meanwhile")
    assert parts >= 1000 and trips > 1000
