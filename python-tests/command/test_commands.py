"""The subcommands besides run: what they print, as text and as JSON, their exit codes, and that bad input changes nothing."""
from __future__ import annotations

import json
import re
import subprocess
from typing import Any, Callable

import pytest

from harness.cluster import Cluster
from harness.quorum import Quorum
from harness.sentinel import Watched
from harness.server import Server
from harness.waiting import wait_until
from shell import HOLD, PROGRAM, Running, call, dlock, is_sentence, objects

Make = Callable[..., Any]


@pytest.fixture
def holder(redis_server: Server):
    with Running("run", "job", "--", *HOLD, url=redis_server.url) as one:
        assert one.line() == "ready"
        yield one


# ---- help


COMMANDS = re.findall(r"^  ([a-z]+) ", dlock("--help").stdout, re.M)


def test_help_fits_on_a_screen() -> None:
    lines = dlock("--help").stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 90
    assert {"run", "inspect", "release", "gate", "semaphore", "latch", "check", "provision", "version"} <= set(COMMANDS)
    assert dlock("help").stdout == dlock("-h").stdout == dlock("--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each(command: str) -> None:
    done = dlock(command, "--help")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(f"Usage: dlock {command}")
    assert len(done.stdout.splitlines()) <= 24 and max(map(len, done.stdout.splitlines())) <= 90
    assert dlock("help", command).stdout == done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_option(command: str) -> None:
    """An option that the parser takes is in the help: unknown ones are refused by name."""
    said = dlock(command, "--help").stdout
    for name in re.findall(r"--([a-z-]+)", said):
        done = dlock(command, f"--{name}=x", "--nonsense-option")
        assert done.returncode == 64 and "there is no option --" + name not in done.stderr.replace(f"--{name}=x", "--taken"), name


# ---- wrong usage

WRONG: list[tuple[list[str], str]] = [
    (["nonsense"], "nonsense"), ([], "dlock --help"), (["-x"], "-x"), (["inspect"], "missing"), (["inspect", "--kind", "x", "a"], "mutex"),
    (["inspect", ""], "name"), (["inspect", "x" * 1025], "1024"), (["release", "a"], "--force"), (["release", "--force"], "missing"),
    (["release", "--force", "a", "b"], "too many"), (["release", "--force", "--kind", "latch", "a"], "latch"), (["gate", "close"], "missing"),
    (["gate", "shut", "a"], "close or open"), (["gate", "close", "a", "--for", "0"], "--for"), (["gate", "close", "a", "--for", "2y"], "--for"),
    (["gate", "close", "a", "--for", "400d"], "--for"), (["gate", "open", "a", "--for", "1s"], "--for"), (["semaphore", "set", "a"], "number"),
    (["semaphore", "set", "a", "0"], "number"), (["semaphore", "set", "a", "x"], "x"), (["semaphore", "set", "a", "2147483648"], "number"),
    (["semaphore", "set", "a", "1", "2"], "too many"), (["semaphore", "grow", "a", "1"], "grow"), (["semaphore", "reclaim", "a", "5"], "5"),
    (["semaphore", "drain", "a", "5"], "too many"), (["semaphore", "show", "--kind", "mutex", "a"], "permit"), (["latch", "set", "a"], "number"),
    (["latch", "down", "a", "0"], "number"), (["latch", "wait", "a", "5"], "5"), (["latch", "break", "a"], "break"), (["check", "a"], "too many"),
    (["check", "--timeout", "0"], "--timeout"), (["provision"], "quarantine_ms"), (["provision", "--quarantine", "25h"], "--quarantine"),
    (["version", "a"], "too many"), (["version", "--url", "redis://a"], "--url"), (["inspect", "--url", "", "a"], "URL"),
    (["inspect", "--url", "ftp://h", "a"], "URL"), (["inspect", "--url", "redis://h?lease_ms=1", "a"], "lease_ms"),
]  # fmt: skip


@pytest.mark.parametrize("words, hint", WRONG, ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "")
def test_wrong_usage(redis_server: Server, words: list[str], hint: str) -> None:
    """One sentence, 64, and nothing changes."""
    assert hint in call(redis_server, *words, code=64)
    assert redis_server.command("DBSIZE") == 0


@pytest.mark.parametrize("words", [["inspect", "a", "b"], ["release", "--force", "a"], ["gate", "close", "a"], ["semaphore", "set", "a", "1"], ["latch", "show", "a"], ["check"], ["provision", "--quarantine", "1s"]])
def test_no_server(tmp_path, words: list[str]) -> None:
    done = dlock(*words, url=f"redis+unix://{tmp_path}/no.sock")
    assert (done.returncode, done.stdout) == (69, "") and is_sentence(done.stderr)


def test_the_default_url() -> None:
    """localhost:6379, where nothing is expected to listen: the sentence names it. An empty DLOCK_URL is none."""
    for env in ({}, {"DLOCK_URL": ""}):
        done = dlock("check", "--timeout", "1s", env=env)
        assert done.returncode in (0, 1, 2) or (done.returncode == 69 and "localhost:6379" in done.stderr)


def test_a_full_disk(redis_server: Server) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "version"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 74 and is_sentence(done.stderr)


@pytest.mark.parametrize("content", [None, "", "\n", "redis://\n"])
def test_a_url_file_that_is_none(tmp_path, content: str | None) -> None:
    path = tmp_path / "url"
    if content is not None:
        path.write_text(content)
    done = dlock("inspect", "--url-file", path, "a")
    assert done.returncode == 64 and is_sentence(done.stderr)


# ---- inspect


def test_inspect(redis_server: Server, holder: Running) -> None:
    assert re.fullmatch(r"job: mutex, held by \S+ for [^,]+, [^,]+ left, token \d+\nfree: mutex, free\n", call(redis_server, "inspect", "job", "free"))
    seen, free = objects(redis_server, "inspect", "job", "free")
    assert seen["held"] and seen["kind"] == "mutex" and seen["waiters"] == 0 and not seen["foreign"]
    assert re.fullmatch(r"[0-9a-f-]{36}:\d+", seen["holder"]) and 0 < seen["remaining_ms"] <= 30_000 and seen["held_for_ms"] >= 0
    assert seen["token"] <= int(redis_server.command("GET", "redisson_lock_token:{job}"))
    assert not free["held"] and free["holder"] == "" and free["token"] is None is free["remaining_ms"]


def test_inspect_shows_waiters(redis_server: Server, holder: Running) -> None:
    with Running("run", "job", "--", "true", url=redis_server.url):
        wait_until(lambda: objects(redis_server, "inspect", "job")[0]["waiters"] == 1)
        assert call(redis_server, "inspect", "job").endswith(", 1 waiting\n")


@pytest.mark.parametrize("kind", ["fair", "read", "write"])
def test_inspect_finds_the_kind(redis_server: Server, kind: str) -> None:
    """A fair lock shows itself by its line."""
    with Running("run", "--kind", kind, "job", "--", *HOLD, url=redis_server.url) as one:
        assert one.line() == "ready"
        with Running("run", "--kind", "fair" if kind == "fair" else "write", "job", "--", "true", url=redis_server.url):
            wait_until(lambda: objects(redis_server, "inspect", "job")[0]["kind"] == kind)
        seen = objects(redis_server, "inspect", "--kind", kind, "job")[0]
        assert seen["held"] and seen["kind"] == kind


def test_inspect_goes_on_after_a_wrong_one(redis_server: Server) -> None:
    redis_server.command("RPUSH", "list", "x")
    done = dlock("inspect", "list", "job", url=redis_server.url)
    assert done.returncode == 64 and done.stdout == "job: mutex, free\n" and is_sentence(done.stderr)


def test_inspect_of_redisson(redis_server: Server) -> None:
    redis_server.command("HSET", "job", "e2a1b8f0-5c1d-4f0a-9a52-000000000000:1", "1")
    assert objects(redis_server, "inspect", "job")[0]["foreign"] and "(Redisson)" in call(redis_server, "inspect", "job")


NAMES = ["two words", "{tag}rest", "ключ 🔒", "x" * 1024, "a\nb\tc", 'quote" back\\slash', "\x1b[31mred", "\x7f"]


@pytest.mark.parametrize("name", NAMES)
def test_names(redis_server: Server, name: str) -> None:
    """JSON has them as they are; text has no control characters."""
    assert objects(redis_server, "inspect", name)[0]["name"] == name
    text = call(redis_server, "inspect", name)
    assert text.endswith(": mutex, free\n") and not re.search(r"[\x00-\x1f\x7f]", text[:-1])


def test_a_name_that_is_no_utf8(redis_server: Server) -> None:
    done = dlock("inspect", "--json", b"a\xff\xed\xa0\x80", url=redis_server.url, text=False)
    found = json.loads(done.stdout)
    assert found["name"] == "a" + "\ufffd" * 4 and bytes.fromhex(found["name_hex"]) == b"a\xff\xed\xa0\x80"
    assert "name_hex" not in objects(redis_server, "inspect", "a\ufffd")[0]
    assert dlock("inspect", b"a\xff", url=redis_server.url, text=False).stdout.startswith(b"a\\xff: ")


# ---- set-ups


@pytest.mark.parametrize("make", [lambda: Cluster(), lambda: Quorum(3), lambda: Watched()], ids=["cluster", "quorum", "sentinel"])
def test_set_ups(make: Make) -> None:
    with make() as up:
        words = ["sh", "-c", f"{PROGRAM!r} inspect --json job; exit 5"]
        done = dlock("run", "--keep-url", "--lease", "5s", "job", "--", *words, url=up.url)
        assert done.returncode == 5 and done.stderr == "" and json.loads(done.stdout)["held"]
        assert dlock("run", "--wait", "0", "job", "--", "true", url=up.url).returncode == 0
        assert dlock("check", "--json", url=up.url).returncode in (0, 1)
        assert dlock("bench", "--for", "400ms", url=up.url).returncode == 0
        assert [json.loads(line)["name"] for line in dlock("top", "--once", "--json", "--all", "job", url=up.url).stdout.splitlines()] == ["job"]
        assert dlock("release", "--force", "job", url=up.url).returncode in ((0, 1) if isinstance(up, Quorum) else (1,))  # a late vote


# ---- release, gate


def test_release(redis_server: Server, holder: Running) -> None:
    assert "--force" in call(redis_server, "release", "job", code=64)
    with Running("run", "job", "--", "echo", "mine", url=redis_server.url) as waiter:
        wait_until(lambda: redis_server.command("EXISTS", "dlock_queue:{job}"))
        assert call(redis_server, "release", "--force", "job") == "job: released by force\n"
        assert waiter.line() == "mine"


def test_release_of_a_free_lock(redis_server: Server) -> None:
    assert "'job'" in call(redis_server, "release", "--force", "job", code=1)


@pytest.mark.parametrize("kind", ["fair", "read", "write"])
def test_release_finds_the_kind(redis_server: Server, kind: str) -> None:
    with Running("run", "--kind", kind, "job", "--", *HOLD, url=redis_server.url) as one:
        assert one.line() == "ready"
        assert objects(redis_server, "release", "--force", "job") == [{"name": "job", "released": True}]
        assert not objects(redis_server, "inspect", "job")[0]["held"]


def test_gate(redis_server: Server, holder: Running) -> None:
    """It ends a wait that is under way."""
    with Running("run", "job", "--", "echo", "ran", url=redis_server.url) as waiter:
        wait_until(lambda: redis_server.command("EXISTS", "dlock_queue:{job}"))
        assert call(redis_server, "gate", "close", "job", "--for", "90s") == "job: gate closed for 1 m 30 s\n"
        assert waiter.code() == 75 and waiter.line() == ""
    assert 0 < redis_server.command("PTTL", "dlock_gate:{job}") <= 90_000
    assert objects(redis_server, "gate", "open", "job") == [{"name": "job", "open": True}]
    assert is_sentence(call(redis_server, "gate", "open", "job", code=1))


# ---- semaphore, latch


@pytest.mark.parametrize("kind", ["permit", "semaphore"])
def test_semaphore(redis_server: Server, kind: str) -> None:
    def say(verb: str, *number: str, code: int = 0) -> str:
        return call(redis_server, "semaphore", verb, "seats", *number, "--kind", kind, code=code)

    assert say("set", "3") == "seats: done\n"
    assert is_sentence(say("set", "4", code=1))
    assert say("add", "2") == "seats: 5 free\n" and say("remove", "1") == "seats: 4 free\n" == say("show")
    assert objects(redis_server, "semaphore", "show", "seats", "--kind", kind) == [{"name": "seats", "available": 4}]
    if kind == "semaphore":
        assert say("reclaim", "1m") == "seats: 0 came back\n" and say("drain") == "seats: 4 drained\n" and say("show") == "seats: 0 free\n"
    else:
        assert is_sentence(say("drain", code=64))


def test_latch(redis_server: Server) -> None:
    assert call(redis_server, "latch", "set", "import", "2") == "import: done\n"
    assert is_sentence(call(redis_server, "latch", "set", "import", "2", code=1))
    assert objects(redis_server, "latch", "show", "import") == [{"name": "import", "count": 2}]
    wait_until(lambda: dlock("latch", "wait", "import", "50ms", url=redis_server.url).returncode == 75)  # 69 on a busy machine
    with Running("latch", "wait", "import", url=redis_server.url) as waiter:
        assert call(redis_server, "latch", "down", "import") == "import: 1 to go\n"
        assert waiter.process.poll() is None
        assert call(redis_server, "latch", "down", "import", "5") == "import: 0 to go\n"
        assert waiter.code() == 0 and waiter.line() == "import: done"
    assert call(redis_server, "latch", "wait", "import", "0") == "import: done\n"


# ---- check, provision, version


def test_check(redis_server: Server, new_server: Make) -> None:
    fit, bad = new_server("--appendonly", "yes"), new_server("--maxmemory-policy", "allkeys-lru")
    assert call(fit, "check") == "nothing was found: the server is fit to keep locks\n"
    assert objects(fit, "check") == [{"findings": []}]
    assert re.fullmatch(r"warning PERSISTENCE: [^\n]+\n", call(redis_server, "check", code=1))
    assert call(bad, "check", code=2).startswith("danger EVICTION: ")
    (found,) = objects(bad, "check", code=2)
    assert {(one["finding"], one["severity"]) for one in found["findings"]} >= {("EVICTION", "danger"), ("PERSISTENCE", "warning")}
    assert all(len(one["advice"]) > 20 for one in found["findings"])


def test_provision(new_server: Make) -> None:
    server = new_server()
    url = server.url + "?quarantine_ms=30000"
    assert dlock("run", "--wait", "0", "job", "--", "true", url=url).returncode == 69
    assert dlock("provision", url=url).returncode == 0
    assert dlock("run", "--wait", "0", "job", "--", "true", url=url).returncode == 0
    assert objects(server, "provision", "--quarantine", "30s") == [{"provisioned": True}]


def test_version(redis_server: Server) -> None:
    text = call(redis_server, "version")
    assert re.fullmatch(r"dlock \d+\.\d+\.\d+\n", text) and text == dlock("--version").stdout
    assert objects(redis_server, "version") == [{"version": text.split()[1]}]
