"""Fixtures for all tests. The docstrings in harness/ describe what servers and proxies can do.

    redis_server    one server for the whole run, emptied before each test that uses it
    etcd            one etcd node for a whole file, emptied before each test that uses it
    new_server      new_server("--maxmemory", "10mb"): a private server
    new_proxy       new_proxy(server): a proxy with faults in front of it; unix=True on a unix socket
    new_agent       new_agent(): a process that uses the library over its ABI and runs commands
"""
from __future__ import annotations

import gc
import json
import pathlib
import signal
import sys
from typing import Any, Callable, Iterator

import pytest

pytest.register_assert_rewrite("harness.engines")

from harness.agent import Agent
from harness.build import BUILD, LIBRARY, ROOT
from harness.cluster import Lone
from harness.etcd import Etcd
from harness.progress import Progress
from harness.proxy import Proxy
from harness.server import Server
from harness.tally import COUNTS

# The order of files. Those of FIRST are heavy and have deadlines: one worker runs them one after another, from the beginning. Those of
# LAST only compute or compile: whoever runs beside them would be late, so they come when all others are done. The tests of APART share
# nothing: each may run in any worker.
FIRST = ("test_redisson.py", "test_memory.py", "test_redisson_cluster.py", "test_script_costs.py")
LAST = ("test_release.py", "test_packages.py", "test_simulator.py", "test_models.py", "test_simulator_mutants.py", "test_worlds.py")
APART = (*LAST[2:], "test_many.py", "test_zookeeper_mutants.py", "test_etcd_mutants.py", "test_memory_mutants.py")

sys.path.insert(0, str(ROOT / "bindings/python"))

# A shell starts what it runs in the background with these ignored. The processes under test begin with the default.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", action="store_true", help="servers are clusters of one, whose keys' slots must agree")
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails the run: it was to show everything")
    parser.addoption("--about", help="tests that are about a word: it stands in their name or file, or in what these say of themselves")
    parser.addoption("--tally", help="a file for what the last test did: its outcome, runs and faults, see harness/tally.py")


def server_class(config: pytest.Config) -> type[Server]:
    return Lone if config.getoption("cluster") else Server


def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and not hasattr(session.config, "workerinput") and not session.config.getoption("collectonly"):
        session.config.pluginmanager.register(Progress(reporter), "progress")


def pytest_sessionfinish(session: pytest.Session) -> None:
    shown = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("no_skips") and shown and shown.stats.get("skipped") and session.exitstatus == 0:
        shown.write_line("\nskipped tests are not allowed here", red=True)
        session.exitstatus = 1
    if CRASHED:  # a sanitizer, for example, ended the interpreter of a worker: do not try again
        session.exitstatus = 98


CRASHED: list[str] = []
OUTCOMES: list[str] = []


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str) -> None:
    CRASHED.append(crashitem)


def is_about(item: pytest.Item, word: str) -> bool:
    told = [item.nodeid, getattr(item.module, "__doc__", ""), getattr(getattr(item, "function", None), "__doc__", "")]  # type: ignore[attr-defined]
    return any(word in (text or "").lower() for text in told)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Seeded defects test the tests. They need a build each, and are for the full run. The command and most bindings have no threads of
    their own, and those of the library are tried without them.
    """
    if getattr(item, "originalname", "").startswith("test_mutant"):
        item.add_marker(pytest.mark.full)
    folder, file = item.path.parts[-2:]
    if folder == "command" or (folder == "bindings" and file not in ("test_aio.py", "test_scenarios.py")) or file == "test_demo.py":
        item.add_marker(pytest.mark.no_tsan)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """The garbage collector takes a third of the time, and finds nothing. What was collected stays until the end."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    word = config.getoption("about")
    if word:
        about = {item: is_about(item, word.lower()) for item in items}
        config.hook.pytest_deselected(items=[item for item in items if not about[item]])
        items[:] = [item for item in items if about[item]]
    items.sort(key=lambda item: (item.path.name not in FIRST, item.path.name in LAST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One worker runs a whole file, except for the files of APART. One runs all of FIRST."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            file = scope.rpartition("/")[2]
            return nodeid if file in APART else "first" if file in FIRST else scope

    return ByFile(config, log)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A fork takes two mutexes of each client, and ThreadSanitizer knows 64 at once: no file leaves clients to the next."""
    COUNTS.clear()
    yield
    if not nextitem or nextitem.path != item.path:
        gc.collect()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Runs after the fixtures are gone: proxies report their faults when they are closed."""
    yield
    item.user_properties += [("done", COUNTS["done"]), ("fired", COUNTS.get("fired"))]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = (yield).get_result()  # type: ignore[misc]
    path = item.config.getoption("tally")
    if path:
        OUTCOMES.append(report.outcome)
        outcome = next((word for word in OUTCOMES if word != "passed"), "passed")
        pathlib.Path(path).write_text(json.dumps({"outcome": outcome, **dict(item.user_properties)}))


def pytest_report_header() -> str:
    return f"library: {LIBRARY}"


def pytest_configure() -> None:
    if not LIBRARY.exists():
        pytest.exit(f"{LIBRARY} is missing: run ./dev build, or ./dev test", returncode=2)


@pytest.fixture(scope="session")
def build_dir():
    return BUILD


@pytest.fixture(scope="session")
def _session_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    with server_class(pytestconfig)() as server:
        yield server


@pytest.fixture
def redis_server(_session_server: Server) -> Server:
    _session_server.command("FLUSHALL")
    return _session_server


@pytest.fixture(scope="module")
def _etcd() -> Iterator[Etcd]:
    with Etcd() as etcd:
        yield etcd


@pytest.fixture
def etcd(_etcd: Etcd) -> Etcd:
    _etcd.clear()
    return _etcd


@pytest.fixture
def new_server(pytestconfig: pytest.Config) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(*options: str) -> Server:
        servers.append(server_class(pytestconfig)(*options))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def new_proxy() -> Iterator[Callable[..., Proxy]]:
    proxies: list[Proxy] = []

    def make(server: Server, unix: bool = False) -> Proxy:
        proxies.append(Proxy(server.path if unix else (server.host, server.port), unix))
        return proxies[-1]

    yield make
    for proxy in proxies:
        proxy.close()


@pytest.fixture
def new_agent() -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def make(*arguments: Any, **more: Any) -> Agent:
        agents.append(Agent(*arguments, **more))
        return agents[-1]

    yield make
    written = [agent.written() for agent in agents]
    for agent in agents:
        agent.close()
    assert not any(written), f"the library wrote to stdout or stderr: {written}"


@pytest.fixture
def agent(new_agent: Callable[..., Agent]) -> Agent:
    return new_agent()
