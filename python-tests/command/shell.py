"""The command dlock, as a shell would start it.

    done = dlock("inspect", "job", url=server.url)              # returncode, stdout, stderr
    with Running("run", "job", "--", "sleep", "60", url=server.url) as job:
        job.line()                                              # the next line of its stdout
        job.process.send_signal(signal.SIGTERM); job.code()
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
from typing import Any

from harness.build import BUILD, clean_env
from harness.waiting import wait_until

PROGRAM = str(BUILD / "tools/dlock/dlock")
LONG = 30  # seconds; nothing here takes as long
HOLD = ["sh", "-c", "echo ready; exec sleep 600"]


def environment(url: str | None, **more: str) -> dict[str, str]:
    env = {name: value for name, value in clean_env().items() if not name.startswith("DLOCK_")}
    return {**env, **({"DLOCK_URL": url} if url else {}), **more}


def dlock(*words: Any, url: str | None = None, text: bool = True, **more: Any) -> subprocess.CompletedProcess[Any]:
    """Runs it to its end."""
    env = environment(url, **more.pop("env", {}))
    return subprocess.run([PROGRAM, *words], env=env, text=text, capture_output=True, timeout=LONG, **more)


def state_of(pid: int) -> str:
    """S sleeping, T stopped, Z dead and not waited for; "" when there is no such process."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return stat[stat.rindex(")") + 2]


def gone(pid: int) -> bool:
    return state_of(pid) in ("", "Z")


class Running:
    """A dlock that runs beside the test. Its command, and what that has started, is killed at the end."""

    def __init__(self, *words: Any, url: str | None = None, **more: Any) -> None:
        env = environment(url, **more.pop("env", {}))
        self.process = subprocess.Popen([PROGRAM, *map(str, words)], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def line(self) -> str:
        assert self.process.stdout
        timer = threading.Timer(LONG, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.readline().rstrip("\n")
        finally:
            timer.cancel()

    def code(self) -> int:
        return self.process.wait(LONG)

    def said(self) -> str:
        """All of stderr, once it has ended."""
        assert self.process.stderr
        self.code()
        return self.process.stderr.read()

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(self.process.pid) == "T")

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()  # its guard ends the command
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


def call(server: Any, *words: str, code: int = 0, **more: Any) -> str:
    """What it prints, to stdout when it is well, else to stderr."""
    done = dlock(*words, url=server.url, **more)
    assert done.returncode == code, done.stderr
    assert not done.stderr if code == 0 else is_sentence(done.stderr) or code in (1, 2) and not done.stderr, done.stderr
    return done.stdout if not done.stderr else done.stderr


def objects(server: Any, *words: str, code: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in call(server, *words, "--json", code=code).splitlines()]


def is_sentence(text: str) -> bool:
    """One line that begins with the name of the program, and has no control characters."""
    return bool(re.fullmatch(r"dlock( [a-z]+)?: [^\x00-\x1f\x7f]+\n", text))
