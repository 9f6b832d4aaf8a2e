"""dlock run in a terminal, started by an interactive shell: Ctrl-C, Ctrl-Z, fg, bg, pipelines, reading from the terminal."""
from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import time
from typing import Iterator

import pytest

from harness.server import Server
from harness.waiting import wait_until
from shell import LONG, PROGRAM, environment, state_of

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")


class Terminal:
    """bash on a pty. type() sends keys; see() waits for a text in what the terminal shows after what was seen before."""

    def __init__(self, url: str) -> None:
        env = environment(url, PS1="$ ", PATH=os.path.dirname(PROGRAM) + ":" + os.environ["PATH"], TERM="dumb", HISTFILE="/dev/null")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], env)
        self.shown = ""
        self.see(r"\$ ")
        self.type("stty -echo\n")
        self.see(r"\$ ")

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def see(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + LONG
        while not (found := re.search(pattern, self.shown)):
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} is not in {self.shown!r}"
            if select.select([self.fd], [], [], left)[0]:
                self.shown += os.read(self.fd, 65536).decode(errors="replace").replace("\r\n", "\n")
        self.shown = self.shown[found.end() :]
        return found

    def run(self, line: str) -> None:
        self.type(line + "\n")

    def code(self) -> int:
        """The exit code of the last job, when the prompt is there."""
        self.run("echo code=$?")
        return int(self.see(r"code=(\d+)\n")[1])

    def foreground(self) -> int:
        return os.tcgetpgrp(self.fd)

    def close(self) -> None:
        foreground = self.foreground()
        os.kill(self.pid, signal.SIGKILL)
        if foreground > 0 and foreground != self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(foreground, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(redis_server: Server) -> Iterator[Terminal]:
    one = Terminal(redis_server.url)
    yield one
    one.close()


READ = "sh -c 'echo ready; read x; echo got $x'"
SLEEP = "sh -c 'echo ready $$; exec sleep 600'"


def free(server: Server) -> bool:
    return server.command("EXISTS", "job") == 0


def test_the_command_reads_from_the_terminal(terminal: Terminal) -> None:
    terminal.run(f"dlock run job -- {READ}")
    terminal.see("ready\n")
    terminal.type("hello\n")
    terminal.see("got hello\n")
    assert terminal.code() == 0 and terminal.foreground() == terminal.pid


@pytest.mark.parametrize("key, number", [("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)])
def test_keys_that_end(terminal: Terminal, redis_server: Server, key: str, number: int) -> None:
    terminal.run("ulimit -c 0")
    terminal.run(f"dlock run job -- {SLEEP}")
    terminal.see(r"ready \d+\n")
    terminal.type(key)
    assert terminal.code() == 128 + number
    assert free(redis_server)


def test_an_interrupt_ends_a_loop_and_a_script(terminal: Terminal) -> None:
    for line in ("for i in 1 2 3; do {}; done", 'bash -c "for i in 1 2 3; do {}; done"'):
        terminal.run(line.format("dlock run job -- sh -c 'echo ready; exec sleep 600'"))
        terminal.see("ready\n")
        terminal.type("\x03")
        assert terminal.code() == 130 and "ready" not in terminal.shown


def test_an_interrupt_ends_the_wait(terminal: Terminal, redis_server: Server) -> None:
    terminal.run(f"dlock run job -- {SLEEP} &")
    terminal.see(r"ready \d+\n")
    terminal.run("dlock run job -- echo ran")
    wait_until(lambda: redis_server.command("EXISTS", "dlock_queue:{job}"))
    terminal.type("\x03")
    assert terminal.code() == 130
    terminal.run("kill %1; wait %1; echo done")
    terminal.see("done\n")
    assert free(redis_server)


def test_stop_and_foreground(terminal: Terminal) -> None:
    terminal.run(f"dlock run job -- {READ}")
    terminal.see("ready\n")
    terminal.type("\x1a")
    terminal.see("Stopped")
    terminal.run("jobs; echo listed")
    terminal.see("listed\n")
    terminal.run("fg")
    terminal.see("dlock run")
    wait_until(lambda: terminal.foreground() != terminal.pid)
    terminal.type("hello\n")
    terminal.see("got hello\n")
    assert terminal.code() == 0


def test_stop_and_background(terminal: Terminal, redis_server: Server) -> None:
    """In the background it goes on, and when it reads it stops again."""
    terminal.run("dlock run job -- sh -c 'echo ready; sleep 0.3 & wait; echo on; read x; echo got $x'")
    terminal.see("ready\n")
    terminal.type("\x1a")
    terminal.see("Stopped")
    terminal.run("bg")
    terminal.see("on\n")
    wait_until(lambda: (terminal.run("jobs"), terminal.see(r"\[1\]\+\s+(\w+)"))[1][1] == "Stopped")
    terminal.run("fg")
    terminal.see("dlock run")
    terminal.type("hello\n")
    terminal.see("got hello\n")
    assert terminal.code() == 0 and free(redis_server)


def test_begun_in_the_background(terminal: Terminal) -> None:
    terminal.run(f"dlock run job -- {READ} &")
    terminal.see("ready\n")
    wait_until(lambda: (terminal.run("jobs"), terminal.see(r"\[1\]\+\s+(\w+)"))[1][1] == "Stopped")
    terminal.run("fg")
    terminal.see("dlock run")
    terminal.type("hello\n")
    terminal.see("got hello\n")
    assert terminal.code() == 0


def test_stopped_past_the_lease(terminal: Terminal, redis_server: Server) -> None:
    """Nothing runs meanwhile. When the job goes on, the command gets SIGTERM before anything else."""
    terminal.run("dlock run --lease 1s job -- sh -c 'trap \"echo term; exit 0\" TERM; echo ready; sleep 600 & wait'")
    terminal.see("ready\n")
    terminal.type("\x1a")
    terminal.see("Stopped")
    wait_until(lambda: free(redis_server))
    terminal.run("fg")
    terminal.see("(?s)term\n.*lost lock 'job'|lost lock 'job'.*term\n")
    assert terminal.code() == 76


@pytest.mark.parametrize("line", ["dlock run job -- sh -c 'read x </dev/tty; echo got $x' | cat", "true | dlock run job -- sh -c 'read x </dev/tty; echo got $x'"])
def test_in_a_pipeline(terminal: Terminal, line: str) -> None:
    """The command gets the terminal when it asks for it."""
    terminal.run(line)
    wait_until(lambda: terminal.foreground() != terminal.pid)
    terminal.type("hello\n")
    terminal.see("got hello\n")
    assert terminal.code() == 0


def test_an_interrupt_in_a_pipeline(terminal: Terminal, redis_server: Server) -> None:
    terminal.run("dlock run job -- sh -c 'echo ready; exec sleep 600' | cat")
    terminal.see("ready\n")
    terminal.type("\x03")
    terminal.code()
    assert free(redis_server)


def test_a_shell_with_job_control_inside(terminal: Terminal) -> None:
    terminal.run("dlock run job -- bash --norc --noprofile --noediting -i")
    terminal.see(r"\$ ")
    inner = terminal.foreground()
    terminal.run("sleep 600")
    wait_until(lambda: terminal.foreground() not in (terminal.pid, inner))
    wait_until(lambda: state_of(terminal.foreground()) == "S" and "sleep" in pathlib.Path(f"/proc/{terminal.foreground()}/comm").read_text())
    terminal.type("\x1a")  # the shell's own process would ignore it
    terminal.see("Stopped")
    terminal.run("kill -9 %1; wait; echo $DLOCK_NAME; exit 5; exit 5")  # bash may ask once whether it shall leave a job
    terminal.see("job\n")
    assert terminal.code() == 5 and terminal.foreground() == terminal.pid


def test_the_terminal_is_hung_up(terminal: Terminal, redis_server: Server) -> None:
    """The session ends: so does the command."""
    terminal.run(f"dlock run job -- {SLEEP}")
    terminal.see(r"ready \d+\n")
    os.kill(terminal.pid, signal.SIGHUP)
    wait_until(lambda: free(redis_server))


def test_full_screen_programs_keep_the_terminal(terminal: Terminal) -> None:
    """dlock changes nothing of it: what the command sets stays until the command sets it back."""
    terminal.run("dlock run job -- sh -c 'stty raw; stty -a | grep -c -- -icanon; stty sane -echo'; stty -a | grep -c -- -icanon; echo over")
    terminal.see("1\n")
    terminal.see("0\n")
    terminal.see("over\n")
