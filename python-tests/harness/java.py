"""A JVM with a real Redisson in it: wire/redisson/Driver.java, which runs commands.

    with Java(server, "4.7.0", watchdog=0.9) as java:       # seconds; one Redisson client, one process
        lock = java.lock("order")                           # java.lock(name, "fair"): see Driver.java for kinds
        lock.lock(-1)                                       # a method of Driver.java, durations in ms; JavaError
        lock.tryLockFor(500, -1, thread="b")                # in another Java thread, started at its first use
        wait = lock.start("lock", -1, thread="b")
        wait.done(), wait.answer().value, wait.answer().took
        java.kill()                                         # SIGKILL; calls under way end with EOFError
    Java(server, "4.7.0", ahead=61_000)                 # its host's clock is fast by so many ms

Maven and javac make jars and classes once per version, in build/redisson. After that nothing needs the network.
Times of answers are in seconds of time.monotonic().
"""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import pathlib
import shutil
import subprocess
import tempfile
import threading
import urllib.parse
from concurrent.futures import Future
from typing import Any, Iterator, NamedTuple

from .build import ROOT, clean_env, preloadable
from .server import Server

# The newest version, and the last 3.2x, which many services still run. Before 3.28.0 Redisson's own waiters sometimes miss messages: they
# sleep until the lease that they know of ends, even if the lock is released before.
VERSIONS = ("4.7.0", "3.29.0")
SOURCES = ROOT / "python-tests/wire/redisson"
MADE = ROOT / "build/redisson"
PACKAGES = {"java": "default-jdk-headless", "javac": "default-jdk-headless", "mvn": "maven"}
QUICK = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]


class JavaError(Exception):
    """What a Java method threw; name is the class without its package."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


# ---- built once


def program(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise RuntimeError(f"{name} is missing: apt-get install {PACKAGES[name]}, which ./dev test --full does")
    return found


def run(*words: object) -> None:
    command = [str(word) for word in words]
    done = subprocess.run(
        command, env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}:\n{done.stdout.decode(errors='replace')[-4000:]}")


@contextlib.contextmanager
def made(folder: pathlib.Path, *of: object) -> Iterator[bool]:
    """Whether the block has to fill the folder, which is empty then. False when it was filled from the same inputs."""
    seal, wanted = folder / ".made-of", hashlib.sha256(repr(of).encode()).hexdigest()
    fresh = not seal.exists() or seal.read_text() != wanted
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    yield fresh
    if fresh:
        seal.write_text(wanted)


def prepare(version: str, driver: pathlib.Path = SOURCES / "Driver.java") -> str:
    """The class path of a driver with that Redisson version. Missing parts are fetched and compiled."""
    jars, classes, pom = MADE / version / "jars", MADE / version / f"classes-{driver.stem}", SOURCES / "pom.xml"
    MADE.mkdir(parents=True, exist_ok=True)
    with open(MADE / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with made(jars, version, pom.read_bytes()) as fresh:
            if fresh:
                goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}", f"-Dredisson.version={version}"]
                run(program("mvn"), "--batch-mode", "--quiet", "--no-transfer-progress", "--file", pom, *goal)
        with made(classes, driver.read_bytes(), str(jars)) as fresh:
            if fresh:
                run(program("javac"), "-nowarn", "-d", classes, "-cp", f"{jars}/*", driver)
    return f"{classes}:{jars}/*"


# ---- a process


class Answer(NamedTuple):
    value: Any
    began: float  # time.monotonic() before the call
    done: float  # and after it

    @property
    def took(self) -> float:
        return self.done - self.began


class Pending:
    """A call in progress."""

    def __init__(self, java: Java) -> None:
        self._java, self.future = java, Future[dict[str, Any]]()

    def done(self) -> bool:
        return self.future.done()

    def answer(self, timeout: float = 30) -> Answer:
        members = self.future.result(timeout)
        if "error" in members:
            raise JavaError(members["error"], urllib.parse.unquote_plus(members["message"]))
        return Answer(plain(members["value"]), members["began"] / 1e6, members["done"] / 1e6)

    def value(self, timeout: float = 30) -> Any:
        return self.answer(timeout).value


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(one) for one in value]
    return urllib.parse.unquote_plus(value) if isinstance(value, str) else value


class Object:
    """A Redisson object. object.operation(words...) runs the operation and returns its value; thread= runs it in another thread."""

    def __init__(self, java: Java, kind: str, name: str, thread: str) -> None:
        self.java, self.kind, self.name, self.thread = java, kind, name, thread

    def start(self, operation: str, *words: Any, thread: str = "") -> Pending:
        return self.java.start(thread or self.thread, self.kind, self.name, operation, *words)

    def __getattr__(self, operation: str) -> Any:
        return lambda *words, **more: self.start(operation, *words, **more).value()


class Java:
    def __init__(self, server: Server | Any, version: str, watchdog: float = 30, sharded: str = "AUTO", ahead: int = 0) -> None:
        """sharded: shardedSubscriptionMode, on a cluster. ahead: of the real time, ms."""
        path = prepare(version)
        self.version, self._tags, self._mutex = version, itertools.count(1), threading.Lock()
        self._waiting: dict[int, Pending] = {}
        self._errors, self._clock = tempfile.TemporaryFile(), tempfile.NamedTemporaryFile()
        self._clock.write((1000 * ahead).to_bytes(8, "little", signed=True))
        self._clock.flush()
        clock = {"LD_PRELOAD": preloadable("simclock.so"), "SIM_CLOCK": self._clock.name, "SIM_CLOCK_RUNS": "0"} if ahead else {}
        command = ["setpriv", "--pdeathsig", "KILL", program("java"), *QUICK, "-cp", path, "Driver", server.url]
        self.process = subprocess.Popen(
            [*command, str(round(watchdog * 1000)), sharded],
            env=clean_env(**clock), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.owner()
        except BaseException:
            self.close()
            raise

    def start(self, thread: str, *words: Any) -> Pending:
        """Sends a line; the words follow its tag and its thread."""
        pending, assembled = Pending(self), [thread, *words]
        with self._mutex:
            tag = next(self._tags)
            self._waiting[tag] = pending
            line = " ".join([str(tag), *(urllib.parse.quote(str(word), safe=":{},") for word in assembled)])
            assert self.process.stdin
            try:
                self.process.stdin.write(line.encode() + b"\n")
                self.process.stdin.flush()
            except (OSError, ValueError):
                del self._waiting[tag]
                raise EOFError(f"the JVM is gone: {self.written()}") from None
        return pending

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            members = json.loads(line)
            with self._mutex:
                pending = self._waiting.pop(members["tag"])
            pending.future.set_result(members)
        with self._mutex:
            left, self._waiting = list(self._waiting.values()), {}
        for pending in left:
            pending.future.set_exception(EOFError(f"the JVM ended: {self.written()}"))

    def lock(self, name: str, kind: str = "lock", thread: str = "main") -> Object:
        return Object(self, kind, name, thread)

    def owner(self, thread: str = "main") -> str:
        """The owner id of a thread on the wire."""
        return str(self.start(thread, "driver", "-", "owner").value(timeout=60))

    def written(self) -> str:
        """The output on stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL: nothing is released."""
        self.process.kill()
        self.process.wait()
        self._reader.join(10)

    def close(self) -> None:
        self.kill()
        for file in (self.process.stdin, self.process.stdout, self._errors, self._clock):
            with contextlib.suppress(OSError):
                file and file.close()

    def __enter__(self) -> Java:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
