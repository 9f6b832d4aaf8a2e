"""A process under test: native/agents/agent.c, which uses the library over its public ABI only and runs commands.

    with Agent() as agent:                          # Agent(shim=True): system calls can be made to fail
        client = agent.open(server.url, lease_ms=1000)
        lock = client.lock("name", safety_ms=200)   # names may be bytes
        lock.acquire(1, 0).ok                       # owner, wait_ms; .ok raises unless the status is OK
        lock.acquire(2, 0).status                   # "BUSY"; also .message, .token, .began, .done (microseconds)
        wait = lock.start("acquire", 2, -1, thread=1)
        wait.answer()                               # waits for the answer
        lock.submit("extend", 7, 1, 5000).ok        # the submitted form: the tag, then what extend takes; client.event()
        client.lock("name", kind="fair")            # a kind by its name; client.multi(lock, other) takes locks
        agent.stop(); agent.resume(); agent.kill()  # SIGSTOP, SIGCONT, SIGKILL

Every answer is checked: the error box has the status that the call returned, and is unchanged when that is OK. What the library
writes to stdout or stderr is in agent.written().
"""
from __future__ import annotations

import collections
import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
import urllib.parse
from typing import Any, Callable, Iterable

from .build import native, preloadable
from .tally import saw
from .waiting import until as until  # for the tests, which import it from here

EVENT_FIELDS = "type status tag lock_id owner token remaining cause held_for waiters foreign value".split()
EVENT_TYPES = "NONE ACQUIRED ACQUIRE_FAILED RELEASED RELEASE_FAILED AT_RISK LOST LOG INSPECTION DONE".split()
CAUSES = "NONE EXPIRED TAKEN MAX_HOLD CLOSED".split()
KINDS = "mutex fair read write semaphore permit_semaphore latch multi".split()
STATS = (
    "acquired wire_grants pushed_grants handovers released lost renewed renewals_late renewal_scripts undone commands "
    "connects connect_failures script_reloads events_dropped held waiting locks"
).split()


def now() -> int:
    """The clock of answers, in microseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def encode(word: Any) -> str:
    data = word if isinstance(word, bytes) else str(word).encode()
    return urllib.parse.quote_from_bytes(data, safe="/:=?&@[].,+*") or "%"


class Event:
    def __init__(self, numbers: list[int], text: str) -> None:
        self.__dict__.update(zip(EVENT_FIELDS, numbers))
        self.type, self.cause, self.text = EVENT_TYPES[numbers[0]], CAUSES[max(numbers[7], 0)], text

    def __getattr__(self, name: str) -> Any:  # tells type checkers that there are more attributes
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"Event({self.__dict__})"


class Answer:
    """The members of the JSON line as attributes."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.__dict__.update(members)
        if "event" in members:
            self.event = Event(members["event"], members["text"])
            self.event.__dict__.update(data=bytes.fromhex(members["data"]), none=members["none"])

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"Answer({self.__dict__})"

    @property
    def ok(self) -> Answer:
        assert self.status == "OK", self
        return self

    @property
    def took(self) -> int:
        """Microseconds in the call."""
        return self.done - self.began

    def check(self) -> None:
        assert self.box == (self.status if self.number else "OK"), f"the error box differs from the status: {self}"
        assert self.number == 0 or self.box == "OK" or self.message, f"no sentence: {self}"


class Pending:
    def __init__(self, agent: Agent, tag: int) -> None:
        self.agent, self.tag = agent, tag

    def answer(self, timeout: float = 20) -> Answer:
        return self.agent.answer(self.tag, timeout)

    def ready(self) -> bool:
        return self.agent.has(self.tag, 0)


class Agent:
    def __init__(self, shim: bool = False, prefix: list[str] | None = None, preload: str = "", **environment: str) -> None:
        """preload: a shared object of python-tests/native that LD_PRELOAD loads before all others."""
        env = {**os.environ, **environment}
        if "TSAN_OPTIONS" in env:
            env["TSAN_OPTIONS"] = env["TSAN_OPTIONS"].replace("interpreter.supp", "libcrypto.supp")
        preload = "shim.so" if shim else preload
        if preload:
            env["LD_PRELOAD"] = " ".join(filter(None, [preloadable(preload), env.get("LD_PRELOAD")]))
            env["ASAN_OPTIONS"] = ":".join(filter(None, [env.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        self._errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*(prefix or []), native("agent")], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors)
        self.pid = self.process.pid
        self._buffer = b""
        self._answers: dict[int, Answer] = {}
        self._tag = 0
        self("live")  # returns when the agent runs

    # ---- commands and answers

    def line(self, command: str, *words: Any, thread: int = 0) -> tuple[int, str]:
        self._tag += 1
        return self._tag, " ".join([str(self._tag), str(thread), command, *map(encode, words)])

    def start(self, command: str, *words: Any, thread: int = 0) -> Pending:
        assert self.process.stdin
        tag, line = self.line(command, *words, thread=thread)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return Pending(self, tag)

    def __call__(self, command: str, *words: Any, thread: int = 0, timeout: float = 20) -> Answer:
        return self.start(command, *words, thread=thread).answer(timeout)

    def has(self, tag: int, timeout: float) -> bool:
        """Whether the answer came within timeout."""
        assert self.process.stdout
        deadline = time.monotonic() + timeout
        while tag not in self._answers:
            left = max(deadline - time.monotonic(), 0)
            if not select.select([self.process.stdout], [], [], left)[0]:
                return False
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                raise EOFError(f"the agent ended with {self.process.wait(5)}: {self.written()}")
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                answer = Answer(json.loads(line))
                self._answers[answer.tag] = answer
        return True

    def answer(self, tag: int, timeout: float) -> Answer:
        if not self.has(tag, timeout):
            raise TimeoutError(f"no answer within {timeout} s")
        answer = self._answers.pop(tag)
        answer.check()
        return answer

    def many(self, calls: Iterable[tuple[Any, ...]], thread: int = 0, ahead: int = 100, timeout: float = 20) -> list[Answer]:
        """All calls, (command, word...) each, one after the other. Some lines are sent before earlier answers arrive."""
        answers, pending = [], collections.deque[Pending]()
        for command, *words in calls:
            pending.append(self.start(command, *words, thread=thread))
            if len(pending) >= ahead:
                answers.append(pending.popleft().answer(timeout))
        return answers + [wait.answer(timeout) for wait in pending]

    # ---- shortcuts for common commands

    def open(self, where: Any, **options: Any) -> Client:
        """where: a URL, or an object that has one."""
        return Client(self, self.try_open(where, **options).ok.index)

    def try_open(self, where: Any, **options: Any) -> Answer:
        return self("open", getattr(where, "url", where), *(f"{name}={value}" for name, value in options.items()))

    def fork(self, *lines: tuple[int, str], count: int = 1, timeout: float = 30) -> list[Child]:
        """Children that run lines, each made by client.line(...) or lock.line(...)."""
        answer = self("fork", count, *(line for _, line in lines), timeout=timeout)
        return [Child(child) for child in answer.children]

    # ---- the process

    def stop(self) -> None:
        saw(1)
        os.kill(self.pid, signal.SIGSTOP)
        while b"State:\tT" not in open(f"/proc/{self.pid}/status", "rb").read():
            time.sleep(0.001)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        saw(1)
        self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()

    def exit(self, code: int = 0, timeout: float = 20) -> int:
        self.start("exit", code)
        return self.process.wait(timeout)

    def threads(self) -> dict[str, dict[str, str]]:
        """The library's threads: name -> the lines of /proc's status."""
        found = {}
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                lines = dict(line.split(":\t", 1) for line in open(f"/proc/{self.pid}/task/{task}/status") if ":\t" in line)
                if lines["Name"].startswith("dlock"):
                    found[lines["Name"].strip()] = lines
        return found

    def fds(self) -> dict[int, str]:
        """The targets of its open descriptors."""
        found = {}
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found[int(fd)] = os.readlink(f"/proc/{self.pid}/fd/{fd}")
        return found

    def written(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.resume()
            self._end()
        for file in (self.process.stdin, self.process.stdout, self._errors):
            with contextlib.suppress(OSError):
                file and file.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Child:
    def __init__(self, members: dict[str, Any]) -> None:
        self.code = members["code"]
        self.answers = [Answer(answer) for answer in members["answers"]]
        for answer in self.answers:
            answer.check()


class Handle:
    """A client or a lock of an agent. handle.command(...) runs that command; start and line take the command's name."""

    def __init__(self, agent: Agent, index: int) -> None:
        self.agent, self.index = agent, index

    def start(self, command: str, *words: Any, thread: int = 0) -> Pending:
        return self.agent.start(command, self.index, *words, thread=thread)

    def line(self, command: str, *words: Any) -> tuple[int, str]:
        return self.agent.line(command, self.index, *words)

    def __getattr__(self, command: str) -> Any:
        return lambda *words, **more: self.agent(command, self.index, *words, **more)


class Client(Handle):
    def new(self, name: str | bytes, kind: int | str = 1, **options: Any) -> Answer:
        number = KINDS.index(kind) + 1 if isinstance(kind, str) else kind
        return self.agent("new", self.index, number, name, *(f"{key}={value}" for key, value in options.items()))

    def lock(self, name: str | bytes, **options: Any) -> Lock:
        answer = self.new(name, **options).ok
        return Lock(self.agent, answer.index, answer.id)

    def new_multi(self, *locks: Lock) -> Answer:
        return self.agent("multi", self.index, *(lock.index for lock in locks))

    def multi(self, *locks: Lock) -> Lock:
        answer = self.new_multi(*locks).ok
        return Lock(self.agent, answer.index, answer.id)

    def txn(self) -> Handle:
        """A transaction: watch KEY, get KEY SIZE, set KEY VALUE TTL, incr KEY BY, delete KEY, commit, rollback, end_txn."""
        return Handle(self.agent, self.agent("txn", self.index).ok.index)

    def counters(self) -> dict[str, int]:
        return dict(zip(STATS, self.stats().ok.stats))

    def event(self, timeout: float = 20, thread: int = 0) -> Event:
        """The next event."""
        answer = self.agent("next", self.index, int(timeout * 1000), thread=thread, timeout=timeout + 5)
        assert answer.status == "OK", f"no event within {timeout} s"
        return answer.event

    def loss(self) -> Event:
        """The next loss that is reported."""
        while True:
            event = self.event(10000)
            if event.type == "LOST":
                return event


class Lock(Handle):
    def __init__(self, agent: Agent, index: int, lock_id: int) -> None:
        super().__init__(agent, index)
        self.id = lock_id

    def state(self, owner: int) -> str:
        return self.agent("state", self.index, owner).ok.state
