"""dlock watch, top and bench: what they show, also in a real terminal (tmux), with no locks and with 10,000, and while the server is away."""
from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
from typing import Any, Callable, Iterator

import pytest

from harness.build import clean_env
from harness.server import Server
from harness.waiting import wait_until
from shell import PROGRAM, Running, dlock, environment, is_sentence

Make = Callable[..., Any]


@pytest.fixture
def hold(redis_server: Server) -> Iterator[Callable[..., Running]]:
    """hold("job", "--kind", "fair"): a dlock that holds it until the end of the test."""
    with contextlib.ExitStack() as stack:

        def begin(name: str, *options: str, url: str = redis_server.url) -> Running:
            one = stack.enter_context(Running("run", *options, name, "--", "sh", "-c", "echo ready; exec sleep 600", url=url))
            assert one.line() == "ready"
            return one

        yield begin


# ---- watch


def events(watcher: Running, count: int) -> list[dict[str, Any]]:
    return [json.loads(watcher.line()) for _ in range(count)]


def test_watch(redis_server: Server, hold: Make) -> None:
    """A lock that is free at first: a grant, a release, a grant and a loss."""
    with Running("watch", "--every", "10ms", "--json", "job", url=redis_server.url) as watcher:
        (first,) = events(watcher, 1)
        assert (first["event"], first["name"], first["holder"], first["token"]) == ("free", "job", "", None)
        job = hold("job")
        (grant,) = events(watcher, 1)
        assert grant["event"] == "granted" and grant["token"] > 0 and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}[+-]\d{4}", grant["time"])
        job.process.terminate()
        (release,) = events(watcher, 1)
        assert (release["event"], release["holder"]) == ("released", grant["holder"])
        hold("job", "--lease", "500ms").process.kill()
        again, loss = events(watcher, 2)
        assert again["event"] == "granted" and again["token"] > grant["token"] and (loss["event"], loss["holder"]) == ("lost", again["holder"])
        watcher.process.send_signal(signal.SIGINT)
        assert watcher.code() == -signal.SIGINT and watcher.said() == ""


def test_watch_as_text(redis_server: Server, hold: Make) -> None:
    hold("job")
    done = dlock("watch", "--for", "0", "job", "free one", url=redis_server.url)
    first, second = done.stdout.splitlines()
    assert re.fullmatch(r"[\d:]{8}\.\d{3} job: held by \S+, token \d+", first) and re.fullmatch(r"[\d:]{8}\.\d{3} free one: free", second)
    assert (done.returncode, done.stderr) == (0, "")


def test_watch_of_a_number(redis_server: Server) -> None:
    assert dlock("latch", "set", "import", "3", url=redis_server.url).returncode == 0
    with Running("watch", "--every", "10ms", "--json", "--kind", "latch", "import", url=redis_server.url) as watcher:
        assert events(watcher, 1)[0]["count"] == 3
        dlock("latch", "down", "import", url=redis_server.url)
        assert events(watcher, 1)[0]["count"] == 2


def test_watch_waits_for_the_server(new_server: Make) -> None:
    """One sentence when it goes, one when it is back."""
    server = new_server()
    with Running("watch", "--every", "10ms", "--json", "job", url=server.url) as watcher:
        assert events(watcher, 1)[0]["event"] == "free"
        server.kill()
        assert watcher.process.stderr and is_sentence(watcher.process.stderr.readline())
        server.start()
        assert "answers again" in watcher.process.stderr.readline()
        watcher.process.terminate()


def test_the_readers_end_ends_watch(redis_server: Server) -> None:
    command = f"{shlex.quote(PROGRAM)} watch --every 10ms a b c | head -n 1"
    done = subprocess.run(["bash", "-c", command], env=environment(redis_server.url), capture_output=True, text=True, timeout=30)
    assert done.stdout.count("\n") == 1


# ---- top --once


def test_top_once(redis_server: Server, hold: Make) -> None:
    hold("b job")
    hold("a job")
    assert dlock("run", "free", "--", "true", url=redis_server.url).returncode == 0
    done = dlock("top", "--once", url=redis_server.url)
    head, first, second = done.stdout.splitlines()
    assert head.split() == ["NAME*", "HOLDER", "HELD", "FOR", "LEFT", "WAITING", "GRANTS/S"] and first.startswith("a job ") and second.startswith("b job ")
    assert "\x1b" not in done.stdout and (done.returncode, done.stderr) == (0, "")

    def names(*words: str) -> list[str]:
        return [json.loads(line)["name"] for line in dlock("top", "--once", "--json", *words, url=redis_server.url).stdout.splitlines()]

    assert names() == ["a job", "b job"] and names("--sort", "held") == ["b job", "a job"] and names("--sort", "left") == ["b job", "a job"]
    assert names("--all") == ["a job", "b job", "free"] and names("b*") == ["b job"]


@pytest.mark.parametrize("words, hint", [(["--json"], "--once"), (["--sort", "age"], "holder"), (["a", "b"], "too many"), (["--every", "1ms"], "--every"), ([], "--once")])
def test_top_refuses(redis_server: Server, words: list[str], hint: str) -> None:
    done = dlock("top", *words, url=redis_server.url)
    assert (done.returncode, done.stdout) == (64, "") and is_sentence(done.stderr) and hint in done.stderr


def test_top_without_a_server(tmp_path) -> None:
    done = dlock("top", "--once", url=f"redis+unix://{tmp_path}/no.sock")
    assert (done.returncode, done.stdout) == (69, "") and is_sentence(done.stderr)


# ---- top on a terminal


class Screen:
    """A program in tmux, which is the terminal: what a person would see of it."""

    def __init__(self, url: str, *words: str, width: int = 80, height: int = 24) -> None:
        self.socket = f"dlock-{secrets.token_hex(8)}"
        shell = " ".join(map(shlex.quote, [PROGRAM, *words]))
        env = {**environment(url), "LC_ALL": "C.UTF-8", "TERM": "xterm"}
        command = ["new-session", "-d", "-x", str(width), "-y", str(height), f"trap : INT; {shell}; echo code=$?; exec cat"]
        subprocess.run(["tmux", "-f", "/dev/null", "-L", self.socket, *command], env=env, check=True)

    def tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", "-L", self.socket, *words], env=clean_env(LC_ALL="C.UTF-8"), check=True, capture_output=True, text=True).stdout

    def lines(self) -> list[str]:
        return self.tmux("capture-pane", "-p").split("\n")[:-1]

    def type(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def see(self, pattern: str, *first: str) -> list[str]:
        """Waits until the screen has it, and its first rows begin so; returns the screen. It may be seen half drawn."""
        seen: list[str] = []

        def look() -> bool:
            seen[:] = self.lines()
            there = [row[: len(word)] for row, word in zip(rows(seen), first)]
            return bool(re.search(pattern, "\n".join(seen))) and there == list(first)

        try:
            wait_until(look)
        except AssertionError:
            raise AssertionError(f"{pattern!r} {first} is not on the screen:\n" + "\n".join(seen)) from None
        return seen

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")


@pytest.fixture
def screen() -> Iterator[Callable[..., Screen]]:
    if not shutil.which("tmux"):
        pytest.skip("there is no tmux")
    made: list[Screen] = []

    def make(*arguments: Any, **more: Any) -> Screen:
        made.append(Screen(*arguments, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def rows(lines: list[str]) -> list[str]:
    return [line for line in lines[3:-1] if line.strip()]


def test_top_shows_what_is_held(redis_server: Server, hold: Make, screen: Make) -> None:
    job = hold("job")
    hold("名前 🔒 name")
    shown = screen(redis_server.url, "top", "--every", "200ms")
    lines = shown.see(r"2 held")
    assert len(lines) == 24 and lines[2].startswith("NAME*") and len(rows(lines)) == 2
    assert lines[3].startswith("job  ") and lines[4].startswith("名前 🔒 name  ") and "q quit" in lines[23]
    with Running("run", "job", "--", "true", url=redis_server.url):
        shown.see(r"job .* 1 +\d+\.\d")
        job.process.terminate()
        shown.see(r"1 held")
    shown.type("a")
    shown.see(r"2 shown(.*\n)*job +- ")
    shown.type("q")
    lines = shown.see(r"code=0")
    assert not any("NAME" in line for line in lines)  # the screen is as before


def test_top_obeys_keys(redis_server: Server, hold: Make, screen: Make) -> None:
    for name in ("alpha", "beta", "gamma"):
        hold(name)
    shown = screen(redis_server.url, "top", "--every", "200ms")
    shown.see("3 held")
    shown.type("r")
    shown.see(r"NAME\^", "gamma", "beta", "alpha")
    shown.type("r", "s", "s")
    shown.see(r"HELD FOR\*", "alpha", "beta", "gamma")
    shown.type("/", "e", "t", "a")
    assert len(rows(shown.see("filter: eta"))) == 1
    shown.type("BSpace", "BSpace", "BSpace", "m", "m", "Enter")
    shown.see("1 shown, filter: mm", "gamma")
    shown.type("/", "Escape")
    shown.see("3 shown\n")
    shown.type("C-c")
    shown.see("code=130")


@pytest.mark.parametrize("width, height", [(80, 24), (200, 50), (60, 10)])
def test_top_fits_the_screen(redis_server: Server, hold: Make, screen: Make, width: int, height: int) -> None:
    hold("x" * 1000)
    hold("bad\x1b[31m\n\tname")
    shown = screen(redis_server.url, "top", "--every", "200ms", width=width, height=height)
    lines = shown.see("2 held")
    assert len(lines) == height and max(map(len, lines)) <= width and "q quit" in lines[-1] and len(rows(lines)) == 2
    assert lines[3].startswith("bad\\x1b[31m")
    shown.tmux("resize-window", "-x", "100", "-y", "20")
    wait_until(lambda: len(shown.lines()) == 20 and "q quit" in shown.lines()[-1])


def test_top_while_the_server_is_away(redis_server: Server, new_server: Make, hold: Make, screen: Make) -> None:
    """The last table stays, keys are obeyed, and it goes on when the server is back."""
    server = new_server()
    hold("job", url=server.url)
    shown = screen(server.url, "top", "--every", "200ms")
    shown.see("1 held")
    server.kill()
    shown.see("no answer for .*cannot be", "job")
    shown.type("r")
    shown.see(r"NAME\^")
    server.start()
    shown.see(r"0 known")
    hold("next", url=server.url)
    shown.see("1 held", "next")


def test_top_with_no_lock(redis_server: Server, screen: Make) -> None:
    shown = screen(redis_server.url, "top", "--every", "200ms")
    assert rows(shown.see("0 known, 0 held")) == []
    shown.type("j", "k", "Space", "b", "s", "q")
    shown.see("code=0")


MANY = """
for i = 1, tonumber(ARGV[1]) do
  local name, id = string.format('lock %05d', i), '00000000-0000-8000-8000-000000000000:' .. i
  redis.call('HSET', name, id, 1)
  redis.call('PEXPIRE', name, 600000)
  redis.call('SET', 'redisson_lock_token:{' .. name .. '}', redis.call('TIME')[1] .. '000000')
end
"""


def test_top_with_ten_thousand(redis_server: Server, screen: Make) -> None:
    redis_server.command("EVAL", MANY, 0, 10_000)
    shown = screen(redis_server.url, "top")
    lines = shown.see("10000 known, 10000 held, 10000 shown")
    assert rows(lines)[0].startswith("lock 00001")
    shown.type("r")
    shown.see(r"NAME\^", "lock 10000")
    shown.type("Space")
    shown.see("lock 09980", "lock 09980")
    assert len(dlock("top", "--once", "--json", url=redis_server.url).stdout.splitlines()) == 10_000


def test_top_stops_as_a_job(redis_server: Server, screen: Make) -> None:
    """Ctrl-Z gives the terminal back as it was; fg draws again."""
    shown = screen(redis_server.url, "version")
    shown.see("code=0")
    shown.tmux("respawn-pane", "-k", "bash --norc --noprofile -i")
    shown.type(f"DLOCK_URL={redis_server.url} {shlex.quote(PROGRAM)} top", "Enter")
    shown.see("0 known")
    shown.type("C-z")
    shown.see("Stopped")
    shown.type("fg; echo over=$?", "Enter")
    shown.see("0 known")
    shown.type("q")
    shown.see("over=0")
    shown.type("stty -a | grep -o ' icanon' ; echo finished", "Enter")
    assert any(line.strip() == "icanon" for line in shown.see("\nfinished"))


# ---- bench


def test_bench(redis_server: Server) -> None:
    done = dlock("bench", "--for", "800ms", url=redis_server.url)
    assert (done.returncode, done.stderr) == (0, "") and len(re.findall(r"p50 +[\d.]+ ms +p99 +[\d.]+ ms +\d+ a second\n", done.stdout)) == 4
    measured = [json.loads(line) for line in dlock("bench", "--for", "800ms", "--json", url=redis_server.url).stdout.splitlines()]
    assert [one["measured"] for one in measured] == ["round_trip", "pair", "pairs_at_once", "hand_over"]
    assert all(one["samples"] > 0 and 0 < one["p50_us"] <= one["p99_us"] for one in measured)
    keys = redis_server.command("KEYS", "*")
    assert keys and all(key.startswith(b"redisson_lock_token:") and 0 < redis_server.command("PTTL", key) <= 60_000 for key in keys)


def test_bench_without_a_server(tmp_path) -> None:
    done = dlock("bench", url=f"redis+unix://{tmp_path}/no.sock")
    assert (done.returncode, done.stdout) == (69, "") and is_sentence(done.stderr)
