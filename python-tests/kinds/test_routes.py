"""The table of scenarios by routes that its first play does not take. There the names have no braces, each client has default options, and
the server is alone behind a unix socket. Here they have, or others do, or something is in between: the answers are the same.
"""
from __future__ import annotations

import contextlib
import dataclasses
import re
from typing import Any, Callable, Iterable, Iterator

import pytest

from harness.cluster import Cluster
from harness.engines import Column, ElsewhereStage, Emptied
from harness.etcd import Etcd
from harness.proxy import Proxy
from harness.scenarios import Scenario, Stage, Step, Wrong, scenarios
from harness.sentinel import Watched
from harness.server import Server
from harness.zookeeper import Zookeeper

pytestmark = pytest.mark.timeout(600)

# ---- what is changed in a scenario

Change = Callable[[Step], Step]


def with_words(step: Step, words: list[str]) -> Step:
    return dataclasses.replace(step, line=" ".join(words))


def in_braces(step: Step) -> Step:
    """What comes after a prefix of the name: a scenario uses that as its namespace."""
    words = step.line.split()
    place = {"lock": 4, "fault": 3}.get(words[0], 0)
    if not place or step.status not in ("OK", "UNCHANGED") or "{" in words[place] or words[place] == "%" or len(words[place]) > 1000:
        return step
    prefix, colon, name = words[place].rpartition(":")
    return with_words(step, [*words[:place], f"{prefix}{colon}{{{name}}}", *words[place + 1 :]])


def with_option(option: str) -> Change:
    """Each client has it that can be opened and does not choose for itself."""
    name = option.partition("=")[0]

    def change(step: Step) -> Step:
        words = step.line.split()
        if words[0] != "client" or step.status != "OK" or not words[2].startswith("$URL") or re.search(rf"[ ?&]{name}=", step.line):
            return step
        return with_words(step, [*words, option])

    return change


def provisioned(step: Step) -> list[Step]:
    """A client of a server that may forget. Its quarantine has just been ended."""
    words = step.line.split()
    if words[0] != "client" or step.status != "OK" or not words[2].startswith("$URL") or "quarantine_ms" in step.line:
        return [step]
    return [with_option("quarantine_ms=86400000")(step), Step(f"provision {words[1]}", "OK", (), False)]


def changed(scenario: Scenario, change: Callable[[Step], Step | list[Step]]) -> Scenario:
    steps: list[Step] = []
    for step in scenario.steps:
        new = change(step)
        steps += new if isinstance(new, list) else [new]
    return dataclasses.replace(scenario, steps=tuple(steps))


# ---- playing all that the route leaves


def play(stage: Stage, table: list[Scenario], runner: str, but: tuple[str, ...] = (), change: Callable[[Step], Any] = lambda step: step, least: int = 60) -> None:
    """but: what the route takes from the scenario's words: its name, or a word of its steps."""
    wrong, played = [], 0
    for scenario in table:
        words = {scenario.name, str(scenario), *(word.partition("=")[0] for step in scenario.steps for word in step.line.split())}
        if scenario.lacking(runner) or words & set(but):
            continue
        played += 1
        try:
            stage.play(changed(scenario, change), runner)
        except (Wrong, TimeoutError, EOFError) as failed:
            wrong.append(f"{scenario}: {failed}")
    assert not wrong, "\n\n".join(wrong)
    assert played >= least


def at_a_server() -> list[Scenario]:
    """Those that a client plays with the server."""
    return [one for one in scenarios() if any("$URL" in step.line for step in one.steps)]


KEY = "transactions: what is no text"  # the key of a lock, by its name
NAMESPACES = ("names: namespaces", KEY)  # it chooses for itself
OPTIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "names in braces": (in_braces, (KEY,)),
    "a namespace": (with_option("namespace=deep:er"), (*NAMESPACES, "names: names that are some")),  # a name may have 1024 bytes
    "one connection": (with_option("private_connections=0"), ()),
    "nothing in memory": (with_option("handover_turns=0"), ()),
    "messages alone": (with_option("safety_ms=60000"), ()),
    "hardly a message": (with_option("safety_ms=100"), ()),
    "four threads": (with_option("watchdog_threads=4"), ()),
    "a server that may forget": (provisioned, ("servers: nothing to provision", "servers: a server that evicts and keeps no log", "names: no admission")),
}


def routes(names: Iterable[str]) -> list[Any]:
    """The first one always, the others with --full."""
    first, *others = names
    return [first, *(pytest.param(other, marks=pytest.mark.full) for other in others)]


@pytest.mark.parametrize("runner", routes(["c", "c-events", "python-asyncio"]))
@pytest.mark.parametrize("route", routes(OPTIONS))
def test_options_and_names(route: str, runner: str) -> None:
    change, but = OPTIONS[route]
    with Stage() as stage:
        play(stage, at_a_server(), runner, but, change)


# ---- other ways to the server


class Way:
    """What a stage wants of its server, at another URL."""

    def __init__(self, url: str, servers: list[Server], stop: Callable[[], None] = lambda: None) -> None:
        self.unix_url, self.servers, self.stop = url, servers, stop

    def command(self, *words: str) -> Any:
        return [server.command(*words) for server in self.servers][0]


@contextlib.contextmanager
def by_tcp() -> Iterator[Way]:
    with Server() as server:
        yield Way(server.url, [server])


@contextlib.contextmanager
def in_another_database() -> Iterator[Way]:
    with Server() as server:
        yield Way(f"{server.url}/7", [server])


@contextlib.contextmanager
def in_pieces() -> Iterator[Way]:
    """Of seven bytes, both ways: no reply comes as a whole."""
    with Server() as server, Proxy((server.host, server.port)) as proxy:
        proxy.up.drip = proxy.down.drip = (7, 0)
        yield Way(proxy.url, [server])
        assert proxy.up.fired["drip"] and proxy.down.fired["drip"]


@contextlib.contextmanager
def with_a_replica() -> Iterator[Way]:
    """Which confirms each grant."""
    with Watched(replicas=1, sentinels=1) as watched:
        yield Way(watched.url, [watched.servers[0]])


@contextlib.contextmanager
def on_a_cluster() -> Iterator[Way]:
    with Cluster(primaries=2, replicas=0) as cluster:
        yield Way(cluster.url, list(cluster.primaries()))


WAYS: dict[str, tuple[Any, tuple[str, ...], Callable[[Step], Any]]] = {
    "a cluster, names in braces": (on_a_cluster, ("names: no admission", "txn"), in_braces),
    "tcp": (by_tcp, (), lambda step: step),
    "another database": (in_another_database, (), lambda step: step),
    "in pieces": (in_pieces, (), lambda step: step),
    "a replica that confirms": (with_a_replica, ("names: no admission",), with_option("replicas=all")),
    "a cluster": (on_a_cluster, ("names: no admission", "txn"), lambda step: step),
}


@pytest.mark.parametrize("way", routes(WAYS))
def test_ways_to_the_server(way: str) -> None:
    there, but, change = WAYS[way]
    with there() as server, Stage(server) as stage:
        play(stage, [one for one in at_a_server() if not one.config], "c", (*but, "servers: a fit server"), change)


# ---- other engines


class EmptiedEtcd(Emptied, Etcd):
    pass


class EmptiedZookeeper(Emptied, Zookeeper):
    pass


class Nowhere:
    url = "memory://routes"
    command = staticmethod(lambda *words: None)
    stop = staticmethod(lambda: None)


ENGINES = {"etcd": EmptiedEtcd, "zookeeper": EmptiedZookeeper, "memory": Nowhere}
ELSEWHERE = {"names in braces": (in_braces, ()), "a namespace": (with_option("namespace=deep"), NAMESPACES), "messages alone": (with_option("safety_ms=60000"), ())}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("route", routes(ELSEWHERE))
def test_on_other_engines(engine: str, route: str) -> None:
    change, but = ELSEWHERE[route]
    with ElsewhereStage(ENGINES[engine]()) as stage:
        play(stage, Column(engine).has, "c", (*but, "names: names that are some"), change)
