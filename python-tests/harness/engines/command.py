"""The command dlock on another engine than Redis: a job, its gate, what it tells of both, and a check of the servers."""
from __future__ import annotations

from typing import Any, Callable

from shell import HOLD, Running, call, objects

from ..waiting import wait_until

NOT_RUN = 75  # the lock is another's, or the gate is closed


def check_command(server: Any, stands: Callable[[], Any], warnings: int = 0) -> None:
    """stands: whether another one waits for the lock "job". warnings: whether a check has some."""
    with Running("run", "job", "--", *HOLD, url=server.url) as holder:
        assert holder.line() == "ready" and objects(server, "inspect", "job")[0]["held"]
        with Running("run", "job", "--", "echo", "ran", url=server.url) as waiter:
            wait_until(stands)
            call(server, "gate", "close", "job", "--for", "90s")
            assert waiter.code() == NOT_RUN and waiter.line() == ""
        call(server, "release", "--force", "job")
    assert not objects(server, "inspect", "job")[0]["held"]
    call(server, "run", "job", "--", "true", code=NOT_RUN)
    call(server, "gate", "open", "job")
    call(server, "gate", "open", "job", code=1)
    assert call(server, "run", "job", "--", "echo", "ran") == "ran\n"
    call(server, "check", code=warnings)
