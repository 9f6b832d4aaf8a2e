"""The rights in docs/acl.md suffice. If one of them is missing, the error names it, nothing hangs, nobody gets a held lock, and nothing is
left that keeps others out.
"""
from __future__ import annotations

import re
from typing import Any, Callable, Iterator

import pytest

from harness.acl import FEATURES, page, rights
from harness.agent import Agent, Answer, Client, Lock, until
from harness.build import ROOT
from harness.kinds import RIVAL
from harness.server import Server

SECRET = "s3cret-canary"
KINDS = {
    "mutex": ["mutex"], "fair": ["fair"], "read-write": ["read", "write"], "semaphore": ["semaphore"],
    "permit-semaphore": ["permit_semaphore"], "latch": ["latch"],
}  # fmt: skip
LINES = ["mutex", "fair"]  # whose waiters a gate finds in a line
OFTEN = ["mutex", "transaction"]  # in every run; the others in the full run
# Rights that calls can do without, and do not report: connection names, messages, unsubscribing, leases after a clock set back.
SILENT = {"client|setname", "hrandfield", "hscan", "mget", "pexpireat", "pexpiretime", "subscribe", "unsubscribe", "unwatch"}
QUIET = {"inspect": {"zrange"}}  # what a feature can do without besides
FINE = ("OK", "BUSY", "NOT_FOUND", "NOT_HELD", "LOST", "UNCHANGED", "GATE_CLOSED")
WORDS = ("NOPERM", "permission", "can't", "does not permit")  # in the server's text; the last one for callers that waited


class Place:
    """A server with a user, and the clients of two processes of that user."""

    def __init__(self, server: Server, agents: list[Agent]) -> None:
        self.server, self.agents = server, agents
        self.clients: list[Client] = []
        self.answers: list[tuple[str, Answer]] = []

    def allow(self, rules: list[str]) -> None:
        self.server.command("ACL", "SETUSER", "billing", "reset", "on", ">" + SECRET, "resetchannels", "-@all", *rules)

    def open(self) -> None:
        url = f"redis://billing:{SECRET}@{self.server.host}:{self.server.port}"
        options = {"namespace": "billing", "lease_ms": 3000, "safety_ms": 100, "connects_per_second": 1000}
        self.clients = [agent.open(url, **options) for agent in self.agents]
        self.answers = []

    def close(self) -> None:
        for client in self.clients:
            client.close(5000)
            client.free().ok

    def note(self, what: str, answer: Answer) -> Answer:
        self.answers.append((what, answer))
        return answer

    def call(self, handle: Any, command: str, *words: Any) -> Answer:
        return self.note(command, handle.agent(command, handle.index, *words))

    def denials(self) -> set[str]:
        """The denied commands, from the server's ACL log."""
        rows = [dict(zip(row[::2], row[1::2])) for row in self.server.command("ACL", "LOG")]
        return {row[b"object"].decode() for row in rows if row[b"reason"] != b"auth"}


@pytest.fixture(scope="module")
def _acl_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def place(_acl_server: Server, new_agent: Callable[..., Agent]) -> Place:
    return Place(_acl_server, [new_agent(), new_agent()])


# ---- the steps of a feature


def use_kind(place: Place, kind: str, name: str) -> None:
    mine, theirs = place.clients[0].lock(name, kind=kind), place.clients[1].lock(name, kind=RIVAL.get(kind, kind))
    if "semaphore" in kind:
        place.call(mine, "permits_set", 1)
        if place.call(mine, "permits_add", 1).status == "OK":
            place.call(mine, "permits_add", -1)
        place.call(mine, "permits")
    first = place.call(mine, "acquire", 1, 0)
    if "semaphore" not in kind or kind == "permit_semaphore":
        place.call(mine, "extend", 1, 3000)
    second = place.call(theirs, "acquire", 1, 0)
    assert not (first.status == second.status == "OK") or mine.state(1) != "HELD" or "semaphore" in kind, "two at once"
    if second.status == "OK":
        place.call(theirs, "release", 1)
    wait = theirs.start("acquire", 1, 1500, thread=1)
    until(lambda: wait.ready() or theirs.state(1) in ("WAITING", "HELD"))
    place.call(mine, "release", 1)
    if place.note("acquire", wait.answer()).status == "OK":
        place.call(theirs, "release", 1)
    if kind not in ("semaphore", "permit_semaphore"):
        place.call(mine, "acquire", 1, 0)
        place.call(theirs, "force")


def use_latch(place: Place, name: str) -> None:
    mine, theirs = (client.lock(name, kind="latch") for client in place.clients)
    place.call(mine, "latch_set", 2)
    place.call(mine, "latch_count")
    place.call(mine, "latch_down", 1)
    wait = theirs.start("acquire", 1, 1500, thread=1)
    until(lambda: wait.ready() or theirs.state(1) == "WAITING")
    place.call(mine, "latch_down", 1)
    place.note("acquire", wait.answer())


def use_gate(place: Place, kind: str, name: str) -> None:
    """Each kind that keeps a line is sent away by commands of its own."""
    mine, theirs = (client.lock(name, kind=kind) for client in place.clients)
    place.call(mine, "acquire", 1, 0)
    wait = theirs.start("acquire", 1, 1500, thread=1)
    until(lambda: wait.ready() or theirs.state(1) in ("WAITING", "HELD"))
    place.call(mine, "close_gate", 60_000)
    place.call(mine, "release", 1)
    if place.note("acquire", wait.answer()).status == "OK":
        place.call(theirs, "release", 1)
    place.call(mine, "open_gate")


def use_transaction(place: Place) -> None:
    txn = place.clients[0].txn()
    for command, *words in [("watch", "stock:1"), ("rollback",), ("watch", "stock:1"), ("get", "stock:1", 100), ("set", "stock:1", "x", -1),
                            ("incr", "stock:2", 1), ("delete", "stock:3"), ("commit",)]:  # fmt: skip
        if place.call(txn, command, *words).status not in ("OK", "NOT_FOUND"):
            break
    txn.end_txn()


def use(place: Place, feature: str, name: str) -> None:
    place.note("ping", place.clients[0].ping(3000))
    if feature == "transaction":
        use_transaction(place)
    elif feature == "latch":
        use_latch(place, name)
    elif feature == "multi":
        mutexes = [place.clients[0].lock(name + letter + "{x}") for letter in "ab"]
        multi = place.clients[0].multi(*mutexes)
        place.call(multi, "acquire", 1, 0)
        place.call(multi, "release", 1)
    elif feature == "inspect":
        place.call(place.clients[0].lock(name), "inspect")
    elif feature == "gate":
        for kind in LINES:
            use_gate(place, kind, name + kind)
    else:
        for kind in KINDS[feature]:
            use_kind(place, kind, name + kind)


def granted(feature: str) -> list[str]:
    """The rights of a feature, and of the kinds that it is used with."""
    rules = rights(feature, "billing").rules()
    for kind in {"multi": ["mutex"], "inspect": ["mutex"], "gate": LINES}.get(feature, []):
        rules += rights(kind, "billing").rules()
    if feature == "multi":  # names in braces
        rules += rights("mutex", "billing", braces=True).rules()
    return list(dict.fromkeys(rules))


def granted_for_braces(feature: str) -> list[str]:
    """The rights on names with braces, made from the others as the page says."""
    patterns = [re.sub(r"(?<=:)\{billing", "billing", re.sub(r"^(~dlock_\w+:)\{", r"\1:", rule)) for rule in granted(feature)]
    return list(dict.fromkeys(re.sub(r"^~\{billing", "~billing", rule) for rule in patterns))


def features() -> list[Any]:
    return [feature if feature in OFTEN else pytest.param(feature, marks=pytest.mark.full) for feature in FEATURES]


# ---- tests


def test_the_page_is_fresh() -> None:
    assert (ROOT / "docs/acl.md").read_text() == page()


@pytest.mark.parametrize("feature", FEATURES)
def test_k02_they_are_enough(place: Place, feature: str) -> None:
    """The server denies nothing, also when messages pass."""
    place.server.command("FLUSHALL"), place.server.command("SCRIPT", "FLUSH"), place.server.command("ACL", "LOG", "RESET")
    place.allow(granted(feature))
    place.open()
    use(place, feature, "all")
    for what, answer in place.answers:
        assert answer.status in FINE, (what, answer)
    place.close()
    assert place.denials() == set()


@pytest.mark.parametrize("feature", FEATURES)
def test_names_with_braces(place: Place, feature: str) -> None:
    """The rule of the page makes their rights from those of names without braces; they are enough, and what the script says."""
    rules = granted_for_braces(feature)
    if feature in KINDS:
        assert rules == rights(feature, "billing", braces=True).rules()
    place.server.command("FLUSHALL"), place.server.command("SCRIPT", "FLUSH"), place.server.command("ACL", "LOG", "RESET")
    place.allow(rules)
    place.open()
    use(place, feature, "all{x}")
    for what, answer in place.answers:
        assert answer.status in FINE, (what, answer)
    place.close()
    assert place.denials() == set()


def test_names_of_others(place: Place) -> None:
    """The user of a namespace can use that namespace only."""
    place.allow(rights("mutex", "billing").rules())
    place.open()
    lock = place.clients[0].lock("lock", namespace="shipping")
    answer = lock.acquire(1, 0)
    assert answer.status == "DENIED" and "NOPERM" in answer.message and "shipping:lock" in answer.message, answer
    assert lock.acquire(1, 200).status == "DENIED"
    place.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("feature", features())
def test_k02_without_one_of_them(place: Place, feature: str) -> None:
    """Each right in turn: the call that needs it reports the denial, with the server's text."""
    used = set()
    for number, right in enumerate(rights(feature, "billing").rules()):
        rules = [rule for rule in granted(feature) if rule != right and (right[0] != "~" or rule[1:].replace("::", ":{") != right[1:])]
        place.server.command("FLUSHALL"), place.server.command("SCRIPT", "FLUSH"), place.server.command("ACL", "LOG", "RESET")
        place.allow(rules)
        place.open()
        use(place, feature, f"name{number}")
        denied = [answer for _, answer in place.answers if answer.status == "DENIED"]
        if place.denials():
            used.add(right)
            assert denied or right[1:] in SILENT | QUIET.get(feature, set()) or right[0] == "&", (right, place.answers)
        for what, answer in place.answers:
            assert answer.status in (*FINE, "TIMED_OUT", "DENIED"), (right, what, answer)
        assert all(any(word in answer.message for word in WORDS) for answer in denied), denied
        assert all(SECRET not in answer.message for answer in denied)
        place.allow(granted(feature))
        place.close()
        if "semaphore" not in feature or all(answer.status == "OK" for what, answer in place.answers if what == "release"):
            free_again(place, feature, f"name{number}", right)  # a permit whose release was denied midway stays taken
    assert len(used) > len(rights(feature, "billing").rules()) // 2, used


def free_again(place: Place, feature: str, name: str, right: str) -> None:
    """With all rights and no other client the name can be acquired at once, or within a lease."""
    if feature not in KINDS or feature == "latch":
        return
    place.open()
    for kind in KINDS[feature]:
        lock: Lock = place.clients[0].lock(name + kind, kind=kind)
        if "semaphore" in kind:
            lock.permits_set(1)
        answer = lock.acquire(1, 6000)
        assert answer.status == "OK", (right, answer)
        lock.release(1).ok
    place.close()
