"""The command dlock on another engine than Redis: a job, its gate, what it tells of both, and a check of the servers."""
from __future__ import annotations

import json
from typing import Any, Callable

from shell import Running, dlock

from ..waiting import wait_until

HOLD = ["sh", "-c", "echo ready; exec sleep 600"]
NOT_RUN = 75  # the lock is another's, or the gate is closed


def check_command(url: str, stands: Callable[[], Any], warnings: int = 0) -> None:
    """stands: whether another one waits for the lock "job". warnings: whether a check has some."""

    def call(*words: str, code: int = 0) -> str:
        done = dlock(*words, url=url)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout

    def job() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(call("inspect", "job", "--json"))
        return found

    with Running("run", "job", "--", *HOLD, url=url) as holder:
        assert holder.line() == "ready" and job()["held"]
        with Running("run", "job", "--", "echo", "ran", url=url) as waiter:
            wait_until(stands)
            call("gate", "close", "job", "--for", "90s")
            assert waiter.code() == NOT_RUN and waiter.line() == ""
        call("release", "--force", "job")
    assert not job()["held"]
    call("run", "job", "--", "true", code=NOT_RUN)
    call("gate", "open", "job")
    call("gate", "open", "job", code=1)
    assert call("run", "job", "--", "echo", "ran") == "ran\n"
    call("check", code=warnings)
