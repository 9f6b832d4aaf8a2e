"""dlock run as a shell sees it: exit codes, arguments, the environment, stdin and stdout, names, passwords."""
from __future__ import annotations

import hashlib
import os
import pathlib
import signal
import subprocess
from typing import Any, Callable

import pytest

from harness.build import clean_env
from harness.faults import times
from harness.server import Server
from harness.waiting import wait_until
from shell import PROGRAM, Running, dlock, environment, is_sentence

Make = Callable[..., Any]


def run(server: Server, *words: str, **more: Any) -> subprocess.CompletedProcess[Any]:
    return dlock("run", *words, url=server.url, **more)


# ---- exit codes


@pytest.mark.parametrize("code", [0, 1, 7, 64, 75, 255])
def test_the_code_of_the_command(redis_server: Server, code: int) -> None:
    done = run(redis_server, "job", "--", "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")
    assert redis_server.command("EXISTS", "job") == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_the_signal_of_the_command(redis_server: Server, number: int) -> None:
    """Also: the lock is released at once, not at the end of its lease."""
    done = run(redis_server, "job", "--", "sh", "-c", f"kill -{int(number)} $$")
    assert (done.returncode, done.stderr) == (128 + number, "")
    assert redis_server.command("EXISTS", "job") == 0


@pytest.mark.parametrize("command, code", [("no-such-command", 127), ("/no/such/file", 127), ("/etc/passwd", 126), ("/", 126)])
def test_a_command_that_cannot_run(redis_server: Server, command: str, code: int) -> None:
    done = run(redis_server, "job", "--", command)
    assert (done.returncode, done.stdout) == (code, "")
    assert is_sentence(done.stderr) and command in done.stderr
    assert redis_server.command("EXISTS", "job") == 0


def test_busy_and_timed_out(redis_server: Server) -> None:
    with Running("run", "job", "--", "sh", "-c", "echo ready; exec sleep 60", url=redis_server.url) as holder:
        assert holder.line() == "ready"
        for wait in ("0", "100ms"):
            done = run(redis_server, "--wait", wait, "job", "--", "echo", "ran")
            assert (done.returncode, done.stdout) == (75, "")
            assert is_sentence(done.stderr) and "'job'" in done.stderr
        with Running("run", "--wait", "30s", "job", "--", "echo", "mine", url=redis_server.url) as waiter:
            wait_until(lambda: redis_server.command("EXISTS", "dlock_queue:{job}"))
            holder.process.terminate()
            assert waiter.line() == "mine" and waiter.code() == 0
        assert holder.code() == 128 + signal.SIGTERM


def test_a_closed_gate(redis_server: Server) -> None:
    assert dlock("gate", "close", "job", "--for", "1m", url=redis_server.url).returncode == 0
    done = run(redis_server, "job", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (75, "") and is_sentence(done.stderr)


@pytest.mark.parametrize("wait", [[], ["--wait", "0"], ["--wait", "100ms"]])
def test_no_server(tmp_path: pathlib.Path, wait: list[str]) -> None:
    done = dlock("run", *wait, "job", "--", "touch", tmp_path / "ran", url=f"redis+unix://{tmp_path}/no.sock")
    assert done.returncode == 69 and is_sentence(done.stderr) and not (tmp_path / "ran").exists()


def test_a_password_that_is_wrong(new_server: Make) -> None:
    server = new_server("--requirepass", "right")
    done = dlock("run", "job", "--", "true", url=f"redis://:wr0ng@127.0.0.1:{server.port}")
    assert done.returncode == 69 and is_sentence(done.stderr) and "wr0ng" not in done.stderr
    assert dlock("run", "job", "--", "true", url=f"redis://:right@127.0.0.1:{server.port}").returncode == 0


# ---- arguments


@pytest.mark.parametrize(
    "words, hint",
    [
        ([], "NAME"), (["job"], "COMMAND"), (["job", "--"], "COMMAND"), (["--", "true"], "NAME"), (["a", "b", "--", "true"], "NAME"),
        (["job", "true"], "--"), (["--nonsense", "job", "--", "true"], "--nonsense"), (["-x", "job", "--", "true"], "-x"),
        (["--wait", "3", "job", "--", "true"], "3"), (["--wait", "-3s", "job", "--", "true"], "-3s"), (["--wait", "3 s", "job", "--", "true"], "3 s"),
        (["--wait", "999999999999999999999s", "job", "--", "true"], "--wait"), (["--wait", "", "job", "--", "true"], "--wait"),
        (["--wait", "9223372036854775807h", "job", "--", "true"], "--wait"), (["job", "--wait", "--", "true"], "--wait"),
        (["--lease", "1ms", "job", "--", "true"], "--lease"), (["--lease", "2d", "job", "--", "true"], "--lease"),
        (["--kind", "mutant", "job", "--", "true"], "fair"), (["--kind", "latch", "job", "--", "true"], "fair"),
        (["--permits", "2", "job", "--", "true"], "--kind permit"), (["--kind", "permit", "--permits", "0", "job", "--", "true"], "--permits"),
        (["--kind", "permit", "--permits", "1x", "job", "--", "true"], "--permits"), (["--lost", "maybe", "job", "--", "true"], "term"),
        (["--grace", "x", "job", "--", "true"], "--grace"), (["--url", "http://a", "job", "--", "true"], "URL"),
        (["--url-file", "/no/such/file", "job", "--", "true"], "/no/such/file"), (["--url", "redis://a", "--url-file", "b", "job", "--", "true"], "both"),
        (["", "--", "true"], "name"), (["x" * 1025, "--", "true"], "1024"), (["a{b", "--", "true"], "brace"),
        (["--namespace", "n" * 300, "job", "--", "true"], "namespace"), (["--namespace", "n" * 200, "x" * 900, "--", "true"], "1024"),
    ],
)  # fmt: skip
def test_wrong_usage(redis_server: Server, words: list[str], hint: str) -> None:
    done = run(redis_server, *words)
    assert (done.returncode, done.stdout) == (64, "")
    assert is_sentence(done.stderr) and hint in done.stderr
    assert redis_server.command("DBSIZE") == 0


def test_help_is_no_call(redis_server: Server) -> None:
    for words in (["run", "--help"], ["run", "-h"], ["help", "run"], ["run", "--wait", "1s", "job", "--help"]):
        done = dlock(*words, url=redis_server.url)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("Usage: dlock run ")


def test_options_may_follow_the_name(redis_server: Server) -> None:
    done = run(redis_server, "job", "--wait", "0", "--", "echo", "--wait", "--", "--help")
    assert (done.returncode, done.stdout) == (0, "--wait -- --help\n")


def test_the_environment(redis_server: Server) -> None:
    """One set of variables, also when dlock runs dlock; DLOCK_FD is open."""
    inner = 'echo "$DLOCK_NAME $DLOCK_TOKEN"; env | grep -c ^DLOCK_; test -p /dev/fd/$DLOCK_FD && echo pipe'
    done = run(redis_server, "--keep-url", "outer", "--", PROGRAM, "run", "inner", "--", "sh", "-c", inner)
    name, token = done.stdout.splitlines()[0].split()
    assert name == "inner" and done.stdout.splitlines()[1:] == ["4", "pipe"]  # with DLOCK_RUN
    last = redis_server.command("GET", "redisson_lock_token:{inner}")
    assert 0 < int(token) <= int(last)


def test_the_url_stays_with_dlock(redis_server: Server) -> None:
    """It may have a password: the command does not inherit it, and ps does not show it, of dlock nor of the guard."""
    script = 'env; for i in $PPID $(cat /proc/$PPID/task/$PPID/children); do tr "\\0" "\\n" < /proc/$i/environ; tr "\\0" "\\n" < /proc/$i/cmdline; done'
    secret = redis_server.url.replace("redis://", "redis://:s3cret@")
    redis_server.command("CONFIG", "SET", "requirepass", "s3cret")
    try:
        for more in ([], ["--url", secret]):
            shown = dlock("run", *more, "job", "--", "sh", "-c", script, url=secret)
            assert shown.returncode == 0 and "DLOCK_TOKEN=" in shown.stdout and "dlock" in shown.stdout
            assert "s3cret" not in shown.stdout + shown.stderr
        kept = dlock("run", "--keep-url", "job", "--", "sh", "-c", "echo $DLOCK_URL", url=secret)
        assert kept.stdout == secret + "\n"
    finally:
        with redis_server.client() as redis:
            redis.command("AUTH", "s3cret")
            redis.command("CONFIG", "SET", "requirepass", "")


def test_tokens_rise(redis_server: Server) -> None:
    tokens = [int(run(redis_server, "job", "--", "sh", "-c", "echo $DLOCK_TOKEN").stdout) for _ in range(3)]
    assert tokens == sorted(set(tokens))


def test_nothing_else_is_inherited(redis_server: Server) -> None:
    """The command has its three files and DLOCK_FD; signals are not blocked; its process group is its own."""
    done = run(redis_server, "job", "--", "sh", "-c", "ls /proc/self/fd | wc -l; cut -d' ' -f1,5 /proc/$$/stat")
    files, ids = done.stdout.splitlines()
    assert int(files) == 5 and ids.split()[0] == ids.split()[1]  # ls has opened the folder
    assert run(redis_server, "job", "--", "grep", "SigBlk", "/proc/self/status").stdout.split()[1] == "0" * 16  # a shell would clear it


def test_signals_that_were_ignored_stay_so(redis_server: Server) -> None:
    command = f"trap '' HUP; exec {PROGRAM!r} run job -- grep SigIgn /proc/self/status"
    done = subprocess.run(["sh", "-c", command], env=environment(redis_server.url), capture_output=True, text=True)
    assert int(done.stdout.split()[1], 16) & 1 << (signal.SIGHUP - 1)


# ---- kinds and terms


@pytest.mark.parametrize("kind", ["mutex", "fair", "read", "write", "permit"])
def test_every_kind(redis_server: Server, kind: str) -> None:
    permits = ["--permits", "1"] if kind == "permit" else []
    words = ["--kind", kind, *permits, "--wait", "0", "job", "--"]
    done = run(redis_server, "--keep-url", *words, PROGRAM, "run", *words, "echo", "inner")
    assert done.returncode == (0 if kind == "read" else 75)
    assert run(redis_server, *words, "echo", "again").stdout == "again\n"


def test_permits(redis_server: Server) -> None:
    """At most two at once; who comes first makes the semaphore."""
    words = ["run", "--wait", "0", "--kind", "permit", "--permits", "2", "pool", "--"]
    with Running(*words, "sh", "-c", "echo ready; exec sleep 60", url=redis_server.url) as first:
        assert first.line() == "ready"
        with Running(*words, "sh", "-c", "echo ready; exec sleep 60", url=redis_server.url) as second:
            assert second.line() == "ready"
            assert dlock(*words, "true", url=redis_server.url).returncode == 75
        wait_until(lambda: second.process.poll() is not None)


def test_the_lease(redis_server: Server) -> None:
    done = run(redis_server, "--keep-url", "--lease", "2s", "job", "--", "sh", "-c", f"{PROGRAM!r} inspect --json job")
    assert '"held": true' in done.stdout
    left = int(done.stdout.partition('"remaining_ms": ')[2].partition(",")[0])
    assert 0 < left <= 2000


def test_the_namespace(redis_server: Server) -> None:
    done = run(redis_server, "--keep-url", "--namespace", "team", "job", "--", PROGRAM, "run", "--wait", "0", "team:job", "--", "true")
    assert done.returncode == 75 and "'team:job'" in done.stderr


def test_min_hold(redis_server: Server) -> None:
    """dlock ends at once; the lock stays for the rest."""
    assert run(redis_server, "--min-hold", "1h", "job", "--", "true").returncode == 0
    assert run(redis_server, "--wait", "0", "job", "--", "echo", "ran").returncode == 75
    assert 3_500_000 < redis_server.command("PTTL", "job") <= 3_600_000


PATIENT = "?connect_timeout_ms=20000&command_timeout_ms=20000"  # a busy machine is no answer


@pytest.mark.parametrize("rounds", times(1, 3))
def test_a_hundred_in_the_same_second(redis_server: Server, rounds: int) -> None:
    """As from the crontabs of a hundred hosts: exactly one runs."""
    for round_ in range(rounds):
        words = [PROGRAM, "run", "--wait", "0", "--lease", "5m", "--min-hold", "1h", f"cron {round_}", "--", "echo", "ran"]
        crowd = [subprocess.Popen(words, env=environment(redis_server.url + PATIENT), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(100)]
        said = b"".join(one.communicate()[0] for one in crowd)
        codes = sorted(one.returncode for one in crowd)
        assert codes == [0] + [75] * 99 and said == b"ran\n"


# ---- streams


def test_100_megabytes_through_stdin(redis_server: Server, tmp_path: pathlib.Path) -> None:
    size = 100_000_000
    path = tmp_path / "data"
    with open(path, "wb") as file:
        for _ in range(100):
            file.write(os.urandom(1_000_000))
    with open(path, "rb") as file:
        sender = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)
        words = [PROGRAM, "run", "job", "--", "sh", "-c", "tee /dev/stderr | wc -c"]
        digest = hashlib.sha256()
        with subprocess.Popen(words, env=environment(redis_server.url), stdin=sender.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
            assert job.stderr and job.stdout
            while data := job.stderr.read(1 << 20):
                digest.update(data)
            assert int(job.stdout.read()) == size
        assert job.returncode == 0 and sender.wait() == 0
    assert digest.digest() == hashlib.sha256(path.read_bytes()).digest()


def test_closed_files(redis_server: Server) -> None:
    """Without stdin, stdout and stderr no connection takes their place."""
    command = f"exec {PROGRAM!r} run job -- sh -c 'readlink /proc/self/fd/0 >&9; echo text; echo text >&2' 9>&1 <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", command], env=environment(redis_server.url), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "/dev/null\n", "")


def test_the_readers_end_comes_when_dlock_ends(redis_server: Server) -> None:
    """Nothing keeps stdout open: the guard has closed it."""
    command = f"{PROGRAM!r} run job -- echo text | cat"
    done = subprocess.run(["sh", "-c", command], env=environment(redis_server.url), capture_output=True, text=True, timeout=20)
    assert done.stdout == "text\n"


# ---- names and passwords


@pytest.mark.parametrize("name", ["two words", "{tag}rest", "a{b}", "ключ 🔒", "x" * 1024, "a\nb\tc", "'\"$`", "-x", "%s%n", "\x1b[31m"])
def test_names(redis_server: Server, name: str) -> None:
    words = ["--", name, "--"] if name.startswith("-") else [name, "--"]
    show = ["sh", "-c", 'printf %s "$DLOCK_NAME"']
    assert run(redis_server, "--min-hold", "1h", *words, *show).stdout == name
    assert redis_server.command("EXISTS", name) == 1
    done = run(redis_server, "--wait", "0", *words, *show)
    assert done.returncode == 75 and is_sentence(done.stderr)


def test_a_name_that_is_no_utf8(redis_server: Server) -> None:
    done = run(redis_server, "--min-hold", "1h", b"\xff\xfe", "--", "sh", "-c", 'printf %s "$DLOCK_NAME"', text=False)
    assert done.stdout == b"\xff\xfe" and redis_server.command("EXISTS", b"\xff\xfe") == 1


SECRET = "S3cr3t"


def password_ways(server: Server, folder: pathlib.Path) -> dict[str, tuple[list[str], str | None]]:
    url = f"redis://:{SECRET}@127.0.0.1:{server.port}"
    (folder / "url").write_text(f"  {url}  \nrest\n")
    return {"environment": ([], url), "file": (["--url-file", str(folder / "url")], None), "argument": (["--url", url], None)}


@pytest.mark.parametrize("way", ["environment", "file", "argument"])
def test_the_password_is_not_in_ps(new_server: Make, tmp_path: pathlib.Path, way: str) -> None:
    """While it waits and while it runs. (An argument is overwritten; the two others never were there.)"""
    server = new_server("--requirepass", SECRET)
    words, url = password_ways(server, tmp_path)[way]
    with Running("run", *words, "job", "--", "sh", "-c", "echo ready; exec sleep 60", url=url) as holder:
        assert holder.line() == "ready"
        with Running("run", *words, "job", "--", "true", url=url) as waiter:
            with server.client() as redis:
                redis.command("AUTH", SECRET)
                wait_until(lambda: redis.command("EXISTS", "dlock_queue:{job}"))
            shown = subprocess.run(["ps", "axww", "-o", "args"], env=clean_env(), capture_output=True, text=True, check=True).stdout
            assert "run" in shown and SECRET not in shown
            waiter.process.kill()
