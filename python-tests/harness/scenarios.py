"""The scenario table of python-tests/scenarios: reads it, starts the runners of the languages, and judges their answers.

    for scenario in scenarios(): ...                # each with its kind of lock filled in
    with Stage() as stage:                          # a server, and runners that start when needed
        stage.play(scenario, "lua")                 # the transcript; Wrong when an answer differs from the table

scenarios/README.md describes the tables and the lines to a runner.
"""
from __future__ import annotations

import atexit
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator

import pytest

from .build import LIBRARY, ROOT, clean_env, native
from .golang import GO, Tool
from .kinds import RIVAL
from .compilers.node import Tool as Node, ready as node_ready
from .compilers.rust import CARGO, Tool as Cargo
from .server import Server

FOLDER = ROOT / "python-tests/scenarios"
FEATURES: dict[str, Any] = tomllib.loads((FOLDER / "features.toml").read_text())
PATIENCE = 30.0  # seconds: longer than anything here takes


class Wrong(AssertionError):
    """The answer of a step differs from the table."""


# ---- the table


@dataclass(frozen=True)
class Step:
    line: str  # the line sent to the runner
    status: str
    values: tuple[str, ...]  # expected values: "token=b>a", "waiting=1"
    again: bool  # repeat until the answer is the expected one


@dataclass(frozen=True)
class Scenario:
    name: str
    kind: str
    needs: frozenset[str]
    steps: tuple[Step, ...]
    config: tuple[tuple[str, str], ...] = ()  # of the server, while it is played

    def __str__(self) -> str:
        return f"{self.name}/{self.kind}" if self.kind else self.name

    def lacking(self, runner: str) -> set[str]:
        """The needs of a scenario that the runner, or its language, does not have."""
        return {need for need in self.needs if lacks(runner, need)}


def lacks(runner: str, feature: str) -> bool:
    return bool({runner, runner.split("-")[0]} & set(FEATURES[feature]["lacks"]))


def step_of(line: str) -> Step:
    line, _, expected = line.partition("->")
    status, *values = expected.split() or ["OK"]
    words = line.split()
    again = words[0] == "until"
    return Step(" ".join(words[again:]), status, tuple(values), again)


def steps_of(text: str, kind: str) -> Iterator[Step]:
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if condition := re.match(r"if ([\w ]+):", line):
            line = line[condition.end() :] if kind in condition[1].split() else ""
        line = line.replace("$KIND", kind).replace("$RIVAL", RIVAL.get(kind, kind))
        line = re.sub(r"<(.+?)\*(\d+)>", lambda many: many[1] * int(many[2]), line)
        if line:
            yield step_of(line)


def scenarios() -> list[Scenario]:
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        for table in tomllib.loads(path.read_text()).get("scenario", []):
            for kind in table.get("kinds", [""]):
                steps = tuple(steps_of(table["steps"], kind))
                verbs = {step.line.split()[0] for step in steps}
                needs = {name for name, feature in FEATURES.items() if verbs & set(feature.get("verbs", []))}
                needs.update(table.get("needs", []))
                config = tuple(table.get("config", {}).items())
                found.append(Scenario(f"{path.stem}: {table['name']}", kind, frozenset(needs), steps, config))
    return found


# ---- runners


def commands() -> dict[str, list[str]]:
    """The command that starts the runner of each language, for each form it has. Those in Go, Rust and for Node.js must still be built."""
    lua, python = ["luajit", str(FOLDER / "runner.lua")], [sys.executable, str(FOLDER / "runner.py")]
    return {
        "c": [str(native("scenario")), "calls"],
        "c-events": [str(native("scenario")), "events"],
        "python": [*python, "calls"],
        "python-events": [*python, "events"],
        "python-asyncio": [sys.executable, str(FOLDER / "runner_asyncio.py")],
        "go": [],
        "lua": [*lua, "calls"],
        "lua-coroutines": [*lua, "coroutines"],
        "rust": ["calls"],
        "rust-tasks": ["tasks"],
        "node": [],
    }


RUNNERS = list(commands())
LATE = ("rust", "rust-tasks", "node")  # those that take long to build, or need much to be installed: only with --full


class Go:
    """The runner in Go: built at its first use, once per run."""

    program = ""
    env: dict[str, str] = {}

    @classmethod
    def build(cls) -> None:
        if not cls.program:
            tool = Tool()
            folder = tempfile.mkdtemp(prefix="dlock-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            tool("build", "-o", f"{folder}/scenarios", ".", cwd=FOLDER / "go")
            cls.program, cls.env = f"{folder}/scenarios", clean_env(LD_LIBRARY_PATH=tool.env["LD_LIBRARY_PATH"])


class Rust:
    """The runner in Rust: built at its first use in a run, if it is not there from an earlier one."""

    program = ""
    env: dict[str, str] = {}

    @classmethod
    def build(cls) -> None:
        if not cls.program:
            tool = Cargo()
            cls.program, cls.env = tool.runner(), clean_env(LD_LIBRARY_PATH=tool.env["LD_LIBRARY_PATH"])


class Runner:
    """A process that runs lines, in one language and form."""

    def __init__(self, name: str) -> None:
        self.name = name
        command = commands()[name]
        env = dict(os.environ, DLOCK_LIBRARY=str(LIBRARY), PYTHONPATH=str(ROOT / "bindings/python"))
        env["LUA_PATH"] = f"{ROOT}/bindings/lua/?.lua;;"
        if name == "go":
            Go.build()
            command, env = [Go.program], Go.env
        elif name.startswith("rust"):
            Rust.build()
            command, env = [Rust.program, *command], Rust.env
        elif name == "node":
            node = Node()
            command, env = node.command(node.runner), node.env
        self.errors = tempfile.TemporaryFile()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(command, env=env, bufsize=0, **pipes)
        self.rest = b""

    def tell(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")

    def answer(self, timeout: float = PATIENCE) -> str:
        assert self.process.stdout
        end = time.monotonic() + timeout
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{self.name}: no answer within {timeout} s")
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                raise EOFError(f"{self.name} ended with {self.process.wait(5)}: {self.written()}")
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def __call__(self, line: str, timeout: float = PATIENCE) -> str:
        self.tell(line)
        return self.answer(timeout)

    def written(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            if file:
                file.close()


# ---- the judge


def values_of(answer: str) -> tuple[str, dict[str, str]]:
    status, *words = answer.split(" ")
    return status, dict(word.split("=", 1) for word in words)


class Judge:
    """One play of a scenario: compares answers with the table and writes the transcript."""

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}  # by the name in the table
        self.seen: dict[int, str] = {}  # token -> the lock that gave it first
        self.locks: dict[str, str] = {}  # handle -> client and name
        self.lines: list[tuple[str, str, dict[str, str]]] = []

    def fits(self, step: Step, status: str, values: dict[str, str]) -> bool:
        return status == step.status and all(self.value_fits(one, values) for one in step.values)

    def value_fits(self, expected: str, values: dict[str, str]) -> bool:
        name, relation, what = re.fullmatch(r"(\w+)([=>~])(.+)", expected).groups()  # type: ignore[union-attr]
        if name not in values:
            return False
        if name != "token":
            return values[name] == what if relation == "=" else int(values[name]) > int(what)
        token = int(values["token"])
        own, _, lower = what.partition(">") if relation == "=" else ("", "", what)
        if lower and not token > self.tokens[lower]:
            return False
        return token == self.tokens.setdefault(own, token) if own else True

    def note(self, step: Step, status: str, values: dict[str, str]) -> None:
        verb, *words = step.line.split()
        if verb in ("lock", "multi"):
            self.locks[words[1]] = words[3] if verb == "lock" else f"multi {words[1]}"
        if verb == "begin":
            self.locks[words[0]] = self.locks[words[1]]
        expected = {re.split("[=>~]", one)[0] for one in step.values}
        if any(one.startswith("token~") for one in step.values):
            values = {**values, "token": "any"}
        elif "token" in values:
            self.seen.setdefault(int(values["token"]), self.locks.get(words[0], ""))
        if step.again:  # the values of a repeated step depend on the moment
            values = {name: value for name, value in values.items() if name in expected}
        self.lines.append((step.line, status, values))

    def transcript(self) -> list[str]:
        """The answers, with each token as its rank among those of its lock, and each time as its sign."""
        ranks: dict[str, list[int]] = {}
        for token in sorted(self.seen):
            ranks.setdefault(self.seen[token], []).append(token)
        text = []
        for line, status, values in self.lines:
            plain = dict(values)
            if values.get("token", "any") != "any":
                token = int(values["token"])
                plain["token"] = f"#{ranks[self.seen[token]].index(token) + 1}"
            if "remaining" in values:
                plain["remaining"] = "some" if int(values["remaining"]) > 0 else values["remaining"]
            text.append(" ".join([line, "->", status, *(f"{name}={value}" for name, value in sorted(plain.items()))]))
        return text


class Stage:
    """A server of its own and a runner per name. A runner starts when it is needed, and anew after a failure."""

    def __init__(self, server: Any = None) -> None:
        self.server = server or Server()  # owned by the stage from now on
        self.runners: dict[str, Runner] = {}
        self.played: dict[tuple[Scenario, str], list[str]] = {}

    def runner(self, name: str) -> Runner:
        if name not in self.runners:
            self.runners[name] = Runner(name)
        return self.runners[name]

    def line(self, text: str) -> str:
        return text.replace("$URL", self.server.unix_url)

    def play(self, scenario: Scenario, name: str) -> list[str]:
        """The transcript of the scenario in this language; remembered from the first play."""
        if (scenario, name) not in self.played:
            self.server.command("FLUSHALL")
            runner, judge = self.runner(name), Judge()
            before = [(key, self.server.command("CONFIG", "GET", key)[1]) for key, _ in scenario.config]
            try:
                self.configure(scenario.config)
                for step in scenario.steps:
                    self.do(runner, judge, step)
                assert runner("reset") == "OK"
            except BaseException:
                self.runners.pop(name).close()
                raise
            finally:
                self.configure(before)
            self.played[scenario, name] = judge.transcript()
        return self.played[scenario, name]

    def configure(self, config: Iterable[tuple[str, Any]]) -> None:
        for key, value in config:
            self.server.command("CONFIG", "SET", key, value)

    def do(self, runner: Runner, judge: Judge, step: Step) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            answer = runner(self.line(step.line))
            status, values = values_of(answer)
            if judge.fits(step, status, values):
                break
            if not step.again or time.monotonic() > end:
                told = "\n".join(judge.transcript())
                expected = " ".join([step.status, *step.values])
                raise Wrong(f"{runner.name}, after:\n{told}\n{step.line}: {answer}, not {expected}")
            time.sleep(0.002)
        judge.note(step, status, values)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for runner in self.runners.values():
            runner.close()
        self.server.stop()


# ---- as parameters of a test

NO_CARGO = pytest.mark.skipif(not CARGO, reason="there is no cargo: apt-get install cargo")
NO_NODE = pytest.mark.skipif(not node_ready(), reason="there is no Node.js with headers: apt-get install nodejs libnode-dev")
NO_GO = pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go")


def late(*runners: str) -> list[Any]:
    """Of runners that are late, or of a pair with one."""
    missing = [NO_NODE] if "node" in runners else []
    missing += [NO_CARGO] if any(runner.startswith("rust") for runner in runners) else []
    return [*missing, pytest.mark.full]


def marks(runner: str) -> list[Any]:
    """Sanitizers are for the library: C suffices."""
    more = [NO_GO] if runner == "go" else late(runner) if runner in LATE else []
    return [] if runner.startswith("c") else [pytest.mark.house, *more]


def few(runner: str) -> list[Any]:
    """Marks of a runner where the bindings do not see what is tested: C and Python run always, all languages with --full."""
    return [*marks(runner), *([] if runner in ("c", "python") else [pytest.mark.full])]


def cell(scenario: Scenario, runner: str, marked: Callable[[str], list[Any]] = marks) -> Any:
    """A scenario in a language."""
    return pytest.param(scenario, runner, marks=marked(runner), id=f"{scenario}-{runner}")
