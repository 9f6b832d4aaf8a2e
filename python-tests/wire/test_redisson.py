"""Real Redisson in a JVM and libdlock on the same names, in both directions, for every kind of object: the table ROWS.

Most tests also run with two JVMs: that shows that Redisson itself does what they require.
"""
from __future__ import annotations

import contextlib
import itertools
import os
import random
import statistics
import time
from typing import Any, Callable, Iterator, NamedTuple

import pytest

from harness.agent import Agent
from harness.build import LIBRARY
from harness.java import VERSIONS, Java, JavaError
from harness.kinds import only_tombstones
from harness.server import Server
from test_foreign import WHILE, Running, Turn, report, wait_until

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
from dlock import Cause, EventType, _lib

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]  # the first test may have to fetch Redisson

LEASE = 0.9  # of holders that are renewed or killed
BOUND = 6.0  # of all others: how long a waiter sleeps that misses a message
SOON, NEARLY_ALL = 0.25, 0.9  # this part of the wake-ups must be faster than SOON
BOOT_BEFORE = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


class Kind(NamedTuple):
    java: str  # the name in Driver.java
    ours: str  # the name in libdlock


LOCK, FENCED, SPIN = Kind("lock", "mutex"), Kind("fenced", "mutex"), Kind("spin", "mutex")
FAIR, READ, WRITE = Kind("fair", "fair"), Kind("read", "read"), Kind("write", "write")
SEMAPHORE, PERMITS = Kind("semaphore", "semaphore"), Kind("permits", "permit_semaphore")


class Row(NamedTuple):
    """Two kinds that exclude each other on one name."""

    name: str
    kind: Kind
    rival: Kind
    owned: bool = True  # only the holder can release it, and it can be forced open
    expires: bool = True  # it comes back from a dead holder
    renewed: bool = True  # by a watchdog
    announced: bool = True  # Redisson sends a message at a release
    load: bool = True


ROWS = [
    Row("mutex", LOCK, LOCK),
    Row("fenced", FENCED, FENCED),
    Row("mutex-fenced", LOCK, FENCED, load=False),
    Row("spin", SPIN, LOCK, announced=False, load=False),
    Row("fair", FAIR, FAIR),
    Row("read-write", READ, WRITE),
    Row("write-read", WRITE, READ, load=False),
    Row("write-write", WRITE, WRITE, load=False),
    Row("semaphore", SEMAPHORE, SEMAPHORE, owned=False, expires=False, renewed=False),
    Row("permits", PERMITS, PERMITS, owned=False, renewed=False),
]
PAIRS = [("java", "java2"), ("java", "agent"), ("agent", "java"), ("java", "python"), ("python", "java")]
NAMES = ["order", "shop:{7}:lock", "{x}", "a b\n*?", "замок €"]


def with_pairs(rows: list[Row]) -> Any:
    """A test for each row and each pair of sides; the second of the pair has the row's rival."""
    cases = list(itertools.product(rows, PAIRS))
    return pytest.mark.parametrize(("row", "pair"), cases, ids=["-".join([row.name, *pair]) for row, pair in cases])


# ---- sides: one object of one kind, of Redisson, the C agent or the Python binding


class Side:
    """One side with one object; for the server a process of its own. Times are time.monotonic()."""

    label: str
    adds = True  # whether it may change the protected data
    token = 0  # of the last hold, where there are tokens

    def try_take(self) -> bool:
        raise NotImplementedError

    def take(self) -> float:
        """Waits for it; returns when that was over."""
        raise NotImplementedError

    def give(self) -> float:
        """Releases it; returns when that began."""
        raise NotImplementedError

    def refused(self) -> None:
        """Checks that it cannot release what it does not hold."""
        raise NotImplementedError

    def force(self) -> bool:
        raise NotImplementedError

    def gone(self) -> None:
        """Checks that it notices when somebody forced the object open."""
        raise NotImplementedError

    def load(self, server: Server, count: int) -> list[Turn]:
        turns = []
        with server.client() as redis:
            for _ in range(count):
                wanted = time.monotonic()
                self.take()
                got, value = time.monotonic(), int(redis.command("GET", "count") or 0)
                if self.adds:
                    redis.command("SET", "count", value + 1)
                else:
                    assert int(redis.command("GET", "count") or 0) == value, "it changed while it was read"
                turns.append(Turn(self.label, wanted, got, time.monotonic(), self.token))
                self.give()
        return turns


class JavaSide(Side):
    def __init__(self, java: Java, kind: str, name: str, thread: str = "main", lease: float = LEASE, patience: float = WHILE) -> None:
        self.java, self.kind, self.thread, self.adds = java, kind, thread, kind != "read"
        self.label, self.object = f"redisson {id(java)}:{thread}", java.lock(name, kind)
        self.permits: list[str] = []
        self.lease, self.patience = round(lease * 1000), patience

    def call(self, operation: str, *words: Any) -> Any:
        try:
            return self.object.start(operation, *words, thread=self.thread).answer(self.patience)
        except JavaError as error:
            if "subscription" not in str(error):  # Redisson 3 sometimes fails to subscribe; see Driver.take
                raise
            return self.object.start(operation, *words, thread=self.thread).answer(self.patience)

    def try_take(self) -> bool:
        if self.kind == "semaphore":
            return bool(self.call("tryAcquire", 1, 0).value)
        if self.kind == "permits":
            self.permits = self.call("tryAcquire", 1, 0, self.lease).value
            return bool(self.permits)
        return bool(self.call("tryLock").value)

    def take(self) -> float:
        if self.kind == "semaphore":
            answer = self.call("acquire", 1)
        elif self.kind == "permits":
            answer = self.call("acquire", 1, self.lease)
            self.permits = answer.value
        elif self.kind == "fenced" and self.java.version >= "4":
            answer = self.call("lockAndGetToken")
            self.token = answer.value
        else:
            answer = self.call("lock", -1)
        if self.kind == "fenced" and self.java.version < "4":  # its lockAndGetToken sometimes waits for ever
            self.token = self.call("token").value
        return float(answer.done)

    def give(self) -> float:
        if self.kind == "semaphore":
            return float(self.call("release", 1).began)
        if self.kind == "permits":
            return float(self.call("release", *self.permits).began)
        return float(self.call("unlock").began)

    def refused(self) -> None:
        with pytest.raises(JavaError, match="IllegalMonitorState"):
            self.give()

    def force(self) -> bool:
        return bool(self.call("forceUnlock").value)

    def gone(self) -> None:
        if self.kind == "fair":  # its release of a vanished lock succeeds
            self.give()
        elif self.kind in ("read", "write") and self.java.version < "4":  # these only until 3.44
            self.give()
        else:
            self.refused()

    def load(self, server: Server, count: int) -> list[Turn]:
        holds = self.call("load", count, "add" if self.adds else "compare", "count").value
        return [Turn(self.label, wanted / 1e6, got / 1e6, done / 1e6, token) for wanted, got, done, token in holds]


class AgentSide(Side):
    def __init__(self, agent: Agent, server: Server, kind: str, name: str, options: dict[str, Any]) -> None:
        number = _lib.constants("DLOCK_KIND_")[kind]
        self.label, self.adds, self.agent = f"agent {agent.pid}", kind != "read", agent
        self.client = agent.open(server, **options)
        self.lock = self.client.lock(name, kind=number)

    def try_take(self) -> bool:
        answer = self.lock.acquire(1, 0)
        assert answer.status in ("OK", "BUSY"), answer
        self.token = answer.token
        return bool(answer.status == "OK")

    def take(self) -> float:
        answer = self.lock.acquire(1, -1, timeout=WHILE).ok
        self.token = answer.token
        return float(answer.done / 1e6 - BOOT_BEFORE)

    def give(self) -> float:
        return float(self.lock.release(1).ok.began / 1e6 - BOOT_BEFORE)

    def refused(self) -> None:
        assert self.lock.release(1).status == "NOT_HELD"

    def force(self) -> bool:
        return bool(self.lock.force().status == "OK")

    def gone(self) -> None:
        while (event := self.client.event()).type == "AT_RISK":
            pass
        assert event.type == "LOST" and event.cause == "TAKEN" and self.lock.state(1) == "LOST"
        assert self.lock.release(1).status == "LOST"


class PythonSide(Side):
    def __init__(self, client: dlock.Client, kind: str, name: str, owner: int = 1, patience: float = WHILE) -> None:
        self.label, self.adds, self.client = f"python {id(client)}:{owner}", kind != "read", client
        self.lock, self.patience = client.lock(name, kind=kind, owner=owner), patience

    def try_take(self) -> bool:
        return self.lock.try_acquire()

    def take(self) -> float:
        assert self.lock.acquire(timeout=self.patience)
        done = time.monotonic()
        self.token = self.lock.token
        return done

    def give(self) -> float:
        began = time.monotonic()
        self.lock.release()
        return began

    def refused(self) -> None:
        with pytest.raises(dlock.NotHeld):
            self.lock.release()

    def force(self) -> bool:
        return self.lock.force_release()

    def gone(self) -> None:
        event = self.client.next_event(WHILE)
        assert event and event.type is EventType.LOST and event.cause is Cause.TAKEN and self.lock.lost
        with pytest.raises(dlock.Lost):
            self.lock.release()


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def javas(version: str, _session_server: Server) -> Iterator[dict[str, Java]]:
    """Two JVMs for all tests; redis_server empties the server in between."""
    with Java(_session_server, version, watchdog=BOUND) as one, Java(_session_server, version, watchdog=BOUND) as two:
        yield {"java": one, "java2": two}


@pytest.fixture
def new_java(redis_server: Server, version: str) -> Iterator[Callable[..., Java]]:
    with contextlib.ExitStack() as stack:
        yield lambda **more: stack.enter_context(Java(redis_server, version, **more))


serial = itertools.count(1)


@pytest.fixture
def name() -> str:
    """The default name of a test, unique in case a thread of another test still waits."""
    return f"k{next(serial)}"


MakeSide = Callable[..., Any]
Record = Callable[[str, object], None]


@pytest.fixture
def side(
    redis_server: Server, javas: dict[str, Java], new_agent: Callable[..., Agent], name: str
) -> Iterator[MakeSide]:
    """side("agent", kind, name): the first is "java", "java2", "agent", "python" or a Java; options: of a libdlock client."""
    own = name
    with contextlib.ExitStack() as stack:

        def make(
            who: str | Java, kind: Kind, name: str = name, thread: str = "main", permits: int = 1, **options: Any
        ) -> Side:
            options = {"lease_ms": round(BOUND * 1000), **options}
            if kind in (SEMAPHORE, PERMITS):
                javas["java"].lock(name, kind.java).trySetPermits(permits)
            if who == "agent":
                return AgentSide(new_agent(), redis_server, kind.ours, name, options)
            if who == "python":
                client = stack.enter_context(dlock.Client(redis_server.url, **options))
                return PythonSide(client, kind.ours, name)
            java = who if isinstance(who, Java) else javas[who]
            return JavaSide(java, kind.java, name, f"{own} {thread}")

        yield make


# ---- the state on the server


def tagged(name: str) -> str:
    return name if "{" in name else "{" + name + "}"


def listeners(server: Server, channel: str) -> int:
    return int(server.command("PUBSUB", "NUMSUB", channel)[1])


def waiting(server: Server, row: Row, name: str) -> int:
    """The visible number of waiting processes: subscribers of Redisson's channel, or members of its fair queue."""
    if row.kind is FAIR:
        return int(server.command("LLEN", f"redisson_lock_queue:{tagged(name)}"))
    prefix = {READ: "redisson_rwlock", WRITE: "redisson_rwlock", SEMAPHORE: "redisson_sc", PERMITS: "redisson_sc"}
    return listeners(server, f"{prefix.get(row.kind, 'redisson_lock__channel')}:{tagged(name)}")


YEAR = 365 * 86_400_000  # how long the number of all permits of a semaphore is kept, in ms


def nothing_left(server: Server, fenced: bool = False, but: list[str] = []) -> None:
    """Nothing but token counters (with an expiry, except Redisson's), keys that expire by themselves, and the keys in `but`."""
    allowed = {name.encode() for name in but}

    def stays(key: bytes) -> bool:
        if key.startswith(b"redisson_lock_token:"):
            return not fenced and server.command("PTTL", key) == -1
        soon = YEAR if key.startswith(b"dlock_once:") else 120_000 if only_tombstones(server, key) else 10_000
        return not (key.startswith(b"dlock_") and -1 != server.command("PTTL", key) <= soon)

    end = time.monotonic() + WHILE
    while left := [key for key in server.command("KEYS", "*") if key not in allowed and stays(key)]:
        assert time.monotonic() < end, [(key, server.command("PTTL", key)) for key in left]
        time.sleep(0.02)


# ---- exclusion


@with_pairs(ROWS)
def test_they_exclude_each_other(
    redis_server: Server, side: MakeSide, name: str, row: Row, pair: tuple[str, str]
) -> None:
    holder, rival = side(pair[0], row.kind), side(pair[1], row.rival)
    for first, second in itertools.permutations([holder, rival]):
        assert first.try_take() and not second.try_take()
        if row.owned:
            second.refused()
        first.give()
        assert second.try_take() and not first.try_take()
        second.give()
    nothing_left(redis_server, fenced=FENCED in (row.kind, row.rival), but=[] if row.owned else [name])


@pytest.mark.parametrize("told", NAMES, ids=repr)
@pytest.mark.parametrize("ours", ["agent", "python"])
def test_names(redis_server: Server, side: MakeSide, ours: str, told: str) -> None:
    """The same lock by the same name, and only that one."""
    theirs, mine, another = side("java", LOCK, told), side(ours, LOCK, told), side(ours, LOCK, f"ns:{told}")
    for one, same in itertools.permutations([theirs, mine]):
        one.take()
        assert not same.try_take() and another.try_take()
        another.give()
        waiter = Running(same.take)
        one.give()
        waiter.result()
        assert not one.try_take()
        same.give()
    nothing_left(redis_server)


@pytest.mark.parametrize("ours", ["agent", "python"])
def test_namespace(redis_server: Server, side: MakeSide, ours: str) -> None:
    """With libdlock's option the names are Redisson's with the namespace and a colon in front."""
    for told in NAMES:
        theirs, mine = side("java", LOCK, f"ns:{told}"), side(ours, LOCK, told, namespace="ns")
        bare = side("java", LOCK, told)
        assert theirs.try_take() and not mine.try_take() and bare.try_take()
        theirs.give()
        assert mine.try_take() and not theirs.try_take()
        mine.give()
        bare.give()
    nothing_left(redis_server)


@pytest.mark.parametrize("ours", ["agent", "python"])
def test_a_multilock_needs_all_its_members(redis_server: Server, side: MakeSide, ours: str) -> None:
    multi, one, two = side("java", Kind("multi", "multi"), "a,b"), side(ours, LOCK, "a"), side(ours, LOCK, "b")
    assert multi.try_take() and not one.try_take() and not two.try_take()
    multi.give()
    assert two.try_take() and not multi.try_take() and one.try_take()
    one.give()
    waiter = Running(multi.take)
    two.give()
    waiter.result()
    multi.give()
    nothing_left(redis_server)


# ---- wake-ups


@with_pairs([row for row in ROWS if row.announced])
def test_a_release_wakes_the_other_side(
    redis_server: Server, side: MakeSide, name: str, row: Row, pair: tuple[str, str], record_property: Record
) -> None:
    holder, waiter = side(pair[0], row.kind), side(pair[1], row.rival, safety_ms=15_000)
    took = []
    for _ in range(10):
        holder.take()
        wait = Running(waiter.take)
        wait_until(lambda: waiting(redis_server, row, name) == 1)
        began = holder.give()
        took.append(wait.result() - began)
        waiter.give()
        wait_until(lambda: waiting(redis_server, row, name) == 0)
    record_property("median, ms", round(statistics.median(took) * 1000, 1))
    print(f"median {statistics.median(took) * 1000:.1f} ms, longest {max(took) * 1000:.1f} ms")
    lossy = row.kind is WRITE and pair == ("java", "java2")  # see AT_ANY_MOMENT
    assert sum(one < SOON for one in took) >= (0.5 if lossy else NEARLY_ALL) * len(took), took


# Not from a write lock of Redisson's: its message is lost for waiters of Redisson's that are about to sleep.
AT_ANY_MOMENT = [
    pytest.param(row, pair, id="-".join((row.name, *pair)))
    for row in ROWS
    for pair in (("agent", "java"), ("java", "agent"))
    if row.name in ("mutex", "fenced", "fair", "read-write", "semaphore", "permits") or row.kind is WRITE and pair[0] == "agent"
]


@pytest.mark.parametrize("row, pair", AT_ANY_MOMENT)
def test_a_release_at_any_moment_wakes(side: MakeSide, row: Row, pair: tuple[str, str]) -> None:
    """Whatever the waiter does at that moment: nobody sleeps until the lease is over."""
    holder, waiter = side(pair[0], row.kind), side(pair[1], row.rival, safety_ms=15_000)
    dice, slow = random.Random(1), []
    for place in range(60):
        holder.take()
        began = time.monotonic()
        wait = Running(waiter.take)
        end = began + dice.random() * 0.004
        while time.monotonic() < end:
            pass
        holder.give()
        if wait.result() - began > BOUND / 3:
            slow.append((place, wait.value - began))
        waiter.give()
        assert len(slow) < 2, slow  # one: see Driver.take


# ---- load


def check_exclusion(server: Server, turns: list[Turn], adding: set[str]) -> None:
    """No change was lost, nobody changed anything during another's hold; tokens rise in the order of holds."""
    assert int(server.command("GET", "count") or 0) == sum(turn.who in adding for turn in turns)
    ends, last = 0.0, 0.0  # of all holds so far, and of those that change something
    for turn in turns:
        assert turn.got >= (ends if turn.who in adding else last), turn
        ends = max(ends, turn.done)
        last = max(last, turn.done) if turn.who in adding else last
    tokens = [turn.token for turn in turns if turn.token]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("row", [row for row in ROWS if row.load], ids=lambda row: row.name)
def test_under_load(redis_server: Server, side: MakeSide, name: str, row: Row, record_property: Record) -> None:
    """Two threads of a JVM against the agent and Python; either pair has both kinds of the row."""
    holds, sides = 600, [side("java", row.kind, thread="a"), side("java", row.rival, thread="b")]
    sides += [side("agent", row.kind), side("python", row.rival)]
    running = [Running(one.load, redis_server, holds) for one in sides]
    for one in running:
        one.thread.join(120)
    turns = sorted((turn for one in running for turn in one.result()), key=lambda turn: turn.got)
    assert len(turns) == len(sides) * holds >= 2000
    check_exclusion(redis_server, turns, {one.label for one in sides if one.adds})
    report(turns, record_property)
    nothing_left(redis_server, fenced=row.kind is FENCED, but=["count"] if row.owned else ["count", name])


# ---- leases


def test_watchdogs_keep_what_is_held(redis_server: Server, side: MakeSide, new_java: Callable[..., Java]) -> None:
    """Both sides hold one object of each kind for several leases, and nobody of the other side gets in."""
    java = new_java(watchdog=LEASE)
    pairs: list[tuple[Side, Side]] = []
    names = []
    for row in ROWS:
        if row.renewed:
            pairs.append((side(java, row.kind, row.name), side("python", row.rival, row.name)))
        if row.renewed or row.kind is PERMITS:  # these are renewed by libdlock, not by Redisson
            for ours in "agent", "python":
                name = f"{ours} {row.name}"
                names.append(name)
                pairs.append((side(ours, row.kind, name, lease_ms=round(LEASE * 1000)), side("java", row.rival, name)))
    for holder, _ in pairs:
        assert holder.try_take()
    end, looks = time.monotonic() + 4 * LEASE, 0
    while time.monotonic() < end:
        for holder, rival in pairs:
            assert not rival.try_take(), (holder.label, holder)
        looks += 1
        time.sleep(0.05)
    assert looks > 10
    for holder, rival in pairs:
        holder.give()
        assert rival.try_take()
        rival.give()
    nothing_left(redis_server, fenced=True, but=[name for name in names if "permits" in name])


def sees_leases_end(row: Row, version: str) -> bool:
    """Whether Redisson's waiters notice: before 3.32 waiters of a renewed fair lock wait for a message only."""
    return row.expires and not (row.kind is FAIR and version < "3.32")


def killed(server: Server, kill: Callable[[], None], pairs: dict[str, tuple[Side, Side]]) -> None:
    """All holders die at once. The waiting rivals get the objects when the leases are over."""
    for holder, _ in pairs.values():
        assert holder.try_take()
    waiters = {name: Running(rival.take) for name, (_, rival) in pairs.items()}
    time.sleep(0.1)
    kill()
    now = time.monotonic()
    left = {name: max(server.command("PTTL", key) for key in (name, f"{{{name}}}:timeout")) / 1000 for name in pairs}
    for name, waiter in waiters.items():
        took = waiter.result() - now
        assert took < max(left[name], LEASE) + 2, (name, took, left)
        assert left[name] < 0 or took > left[name] - 0.05, (name, took, left)
        pairs[name][1].give()
    nothing_left(server, fenced=True, but=[name for name in pairs if "permits" in name])


def test_a_killed_jvm_frees_what_it_held(
    redis_server: Server, side: MakeSide, new_java: Callable[..., Java], version: str
) -> None:
    java, pairs = new_java(watchdog=LEASE), {}
    for row in ROWS:
        if sees_leases_end(row, version):
            for rival in "java2", "agent", "python":
                name = f"{row.name}-{rival}"
                pairs[name] = side(java, row.kind, name), side(rival, row.rival, name, thread=name)
    killed(redis_server, java.kill, pairs)


def test_a_killed_agent_frees_what_it_held(redis_server: Server, side: MakeSide, version: str) -> None:
    pairs = {}
    for row in ROWS:
        if sees_leases_end(row, version):
            holder = side("agent", row.kind, row.name, lease_ms=round(LEASE * 1000))
            pairs[row.name] = holder, side("java", row.rival, row.name, thread=row.name)
    killed(redis_server, lambda: [holder.agent.kill() for holder, _ in pairs.values()], pairs)  # type: ignore


@with_pairs([row for row in ROWS if row.owned and row.kind is row.rival] + [Row("read-read", READ, READ)])
def test_forced_open_by_the_other_side(redis_server: Server, side: MakeSide, row: Row, pair: tuple[str, str]) -> None:
    holder, other = side(pair[0], row.kind, lease_ms=600), side(pair[1], row.rival)
    assert holder.try_take()
    assert other.force()
    holder.gone()
    assert other.try_take()
    if row.kind is not READ:
        assert not holder.try_take()
    other.give()
    assert not other.force()
    if row.kind is not READ:  # the hold keys of reads expire by themselves
        nothing_left(redis_server, fenced=row.kind is FENCED)


# ---- tokens


@pytest.mark.parametrize("first", ["java", "agent"])
def test_tokens_rise_across_both_sides(redis_server: Server, side: MakeSide, name: str, first: str) -> None:
    """Whoever began to count."""
    sides, tokens = [side(who, FENCED) for who in ("java", "agent", "java2", "python")], []
    counter = f"redisson_lock_token:{{{name}}}"
    for one in [side(first, FENCED), *sides * 5, *reversed(sides * 5)]:
        one.take()
        tokens.append(one.token)
        assert redis_server.command("GET", counter)
        one.give()
    assert tokens == sorted(set(tokens))
    assert (redis_server.command("PTTL", counter) == -1) == (first == "java")
    java = side("java", FENCED)
    java.take()
    assert java.call("token").value == java.token > tokens[-1]
    java.give()
    nothing_left(redis_server, fenced=True)


@pytest.mark.parametrize("who", ["agent", "python"])
def test_a_multilock_that_ends_the_counters(redis_server: Server, side: MakeSide, javas: dict[str, Java], who: str) -> None:
    """Its lease ends its members' token counters too. Our next grant may repair the counter or come too late, and either side may count
    first then: no token of libdlock is lower than any earlier one, of either side.
    """
    names, ended, over = ["a", "b"], 0, 0
    multi, java = javas["java"].lock(",".join(names), "fencedMulti", thread="m"), javas["java2"]
    ours = {name: side(who, FENCED, name) for name in names}
    highest = dict.fromkeys(names, 0)
    for round in range(6):
        for name, one in ours.items():
            one.take()
            assert one.token > highest[name]
            highest[name] = one.token
            one.give()
        lease = 60_000 if round % 3 == 0 else 400
        assert multi.tryLockFor(0, lease) is True
        for name in names:
            left = redis_server.command("PTTL", f"redisson_lock_token:{{{name}}}")
            assert -1 != left <= lease
            ended += 1
            highest[name] = max(highest[name], int(redis_server.command("GET", f"redisson_lock_token:{{{name}}}") or 0))
        if round % 3 == 0:
            multi.unlock()  # the counters are going to expire
            continue
        wait_until(lambda: not redis_server.command("EXISTS", *names, *(f"redisson_lock_token:{{{name}}}" for name in names)))
        over += 1
        if round % 3 == 2:  # Redisson comes first, and starts at 1
            for name in names:
                fenced = java.lock(name, "fenced", thread="f")
                fenced.lock(-1)
                assert fenced.token() == 1
                fenced.unlock()
    assert ended == 12 and over == 4
    for name, one in ours.items():
        one.take()
        assert one.token > highest[name]
        one.give()


@pytest.mark.parametrize("who", ["agent", "python"])
def test_permits_of_a_killed_agent_come_back_to_java(
    redis_server: Server, counted: Callable[..., Any], new_agent: Callable[..., Agent], name: str, who: str
) -> None:
    """Redisson's number, its message and its own permits are as if the holder had released; its waiter is woken."""
    java, other = counted("java", "semaphore"), counted(who, "semaphore")
    holder = new_agent()
    dead = holder.open(redis_server, lease_ms=600).lock(name, kind="semaphore", permits=2)
    assert java.trySetPermits(3) and java.tryAcquire(1, 0)
    dead.acquire(1, 0).ok
    wait = begin(counted("java2", "semaphore"), "tryAcquire", 2)
    wait_until(lambda: redis_server.command("PUBSUB", "NUMSUB", f"redisson_sc:{{{name}}}")[1] == 1)
    holder.kill()
    wait_until(lambda: other.reclaim() == 2)
    assert wait() and java.availablePermits() == 0 == other.reclaim()
    java.release(1)
    java.delete()
    nothing_left(redis_server)


# ---- read locks are shared, a fair lock has one queue


@pytest.mark.parametrize("who", ["agent", "python"])
@pytest.mark.parametrize("first", ["java", "ours"])
def test_readers_of_both_sides_share(redis_server: Server, side: MakeSide, name: str, who: str, first: str) -> None:
    readers = [side("java", READ), side("java2", READ), side(who, READ), side(who, READ)]
    writers = [side("java", WRITE, thread="w"), side(who, WRITE)]
    for one in readers if first == "java" else readers[::-1]:
        assert one.try_take() and not any(writer.try_take() for writer in writers)
    waits = [Running(writer.take) for writer in writers]
    wait_until(lambda: waiting(redis_server, Row("", WRITE, WRITE), name) == 2)
    for one in readers[1:]:
        one.give()
        assert waits[0].value is waits[1].value is None
    readers[0].give()
    wait_until(lambda: any(wait.value for wait in waits))
    got = 0 if waits[0].value else 1
    writers[got].give()
    waits[1 - got].result()
    writers[1 - got].give()
    nothing_left(redis_server)


@pytest.mark.parametrize("dies", ["java", "agent"])
def test_a_reader_lives_on_when_the_other_dies(
    redis_server: Server, side: MakeSide, new_java: Callable[..., Java], dies: str
) -> None:
    """Redisson's release and renewal check the holds of others; those of libdlock must pass that check."""
    java, options = new_java(watchdog=LEASE), {"lease_ms": round(LEASE * 1000)}
    agent = side("agent", READ, **options)
    dying, living = (side(java, READ), agent) if dies == "java" else (agent, side(java, READ))
    passing, writers = side("java2", READ), [side("java", WRITE), side("python", WRITE)]
    assert dying.try_take() and living.try_take() and passing.try_take()
    passing.give()
    (java if dies == "java" else agent.agent).kill()
    end = time.monotonic() + 3 * LEASE
    while time.monotonic() < end:
        assert not any(writer.try_take() for writer in writers)
        time.sleep(0.02)
    living.give()
    for writer in writers:
        writer.take()
        writer.give()
    nothing_left(redis_server)


def test_a_fair_lock_serves_in_the_order_of_arrival(redis_server: Server, side: MakeSide, name: str) -> None:
    order = ["java", "agent", "python", "java2", "agent", "java", "python"]
    sides = [side(who, FAIR, thread=str(place)) for place, who in enumerate(order)]
    row, waits = Row("", FAIR, FAIR), []
    sides[0].take()
    for place, one in enumerate(sides[1:], 1):
        waits.append(Running(one.take))
        wait_until(lambda: waiting(redis_server, row, name) == place)
    for place, one in enumerate(sides[:-1]):
        one.give()
        waits[place].result()
        assert [wait.value is None for wait in waits] == [later > place for later in range(len(waits))]
    sides[-1].give()
    nothing_left(redis_server)


# ---- clocks of Java hosts, as docs/kinds.md states them


@pytest.mark.parametrize("ahead, passed", [(55_000, False), (66_000, True)])
def test_a_fair_lock_beside_a_host_that_is_fast(
    redis_server: Server, side: MakeSide, new_java: Callable[..., Java], name: str, ahead: int, passed: bool
) -> None:
    """Java gives up waiters of ours that come later by its clock, and goes before them. They get the lock after it; two never hold."""
    row, held = Row("", FAIR, FAIR), side("agent", FAIR, lease_ms=30_000)
    ours, fast = side("python", FAIR), side(new_java(ahead=ahead), FAIR)
    held.take()
    wait = Running(ours.take)
    wait_until(lambda: waiting(redis_server, row, name) == 1)
    of_java = Running(fast.take)
    wait_until(lambda: waiting(redis_server, row, name) == 2)  # the one that was given up has come back
    held.give()
    (first, first_wait), (second, second_wait) = [(fast, of_java), (ours, wait)] if passed else [(ours, wait), (fast, of_java)]
    first_wait.result()
    assert second_wait.value is None and not held.try_take()
    first.give()
    second_wait.result()
    assert not held.try_take()
    second.give()
    nothing_left(redis_server)


def test_a_permit_beside_a_host_that_is_fast(redis_server: Server, side: MakeSide, new_java: Callable[..., Java]) -> None:
    """It takes the permit of a holder that lives. The holder hears LOST, with its cause, at its next renewal."""
    ours, fast = side("agent", PERMITS, lease_ms=6000), side(new_java(ahead=7000), PERMITS)
    ours.take()
    fast.permits = fast.call("tryAcquire", 1, 0, 60_000).value
    assert fast.permits
    ours.gone()
    assert not ours.try_take()
    fast.give()
    ours.take()
    ours.give()


# ---- counted objects: permits and latches


class Counted:
    """A semaphore or a latch of the C agent or the Python binding, with the method names of Redisson."""

    def __init__(self, client: Any, kind: str, name: str, **options: Any) -> None:
        self.client = client
        self.agent = not isinstance(client, dlock.Client)
        made = {1: options, 2: {"permits": 2, **options}} if kind == "semaphore" else {1: options}
        if self.agent:
            number = _lib.constants("DLOCK_KIND_")[kind]
            self.locks = {permits: client.lock(name, kind=number, **more) for permits, more in made.items()}
        else:
            self.locks = {permits: getattr(client, kind)(name, owner=1, **more) for permits, more in made.items()}

    def said(self, agent_word: str, python_word: str, *words: int) -> Any:
        if not self.agent:
            member = getattr(self.locks[1], python_word)
            return member(*words) if callable(member) else member
        answer = getattr(self.locks[1], agent_word)(*words)
        assert answer.status in ("OK", "UNCHANGED"), answer
        return vars(answer).get("value", answer.status == "OK")

    def trySetPermits(self, permits: int) -> Any:
        return self.said("permits_set", "set_permits", permits)

    def addPermits(self, permits: int) -> Any:
        return self.said("permits_add", "add_permits", permits)

    def drainPermits(self) -> Any:
        return self.said("permits_drain", "drain_permits")

    def reclaim(self) -> Any:
        return self.said("permits_reclaim", "reclaim_permits", 0)

    def availablePermits(self) -> Any:
        return self.said("permits", "available_permits")

    def trySetCount(self, count: int) -> Any:
        return self.said("latch_set", "set_count", count)

    def countDown(self) -> Any:
        return self.said("latch_down", "count_down", 1)

    def getCount(self) -> Any:
        return self.said("latch_count", "count")

    def tryAcquire(self, permits: int, wait: int) -> bool:
        if not self.agent:
            return bool(self.locks[permits].acquire(timeout=wait / 1000))
        answer = self.locks[permits].acquire(1, wait)
        assert answer.status in ("OK", "BUSY", "TIMED_OUT"), answer
        return bool(answer.status == "OK")

    def release(self, permits: int) -> None:
        self.locks[permits].release(*[1] * self.agent)

    def permit(self) -> str:
        """The id of the permit it holds."""
        return str(self.locks[1].permit(1, 0, 33).ok.permit if self.agent else self.locks[1].permit_id())

    def lost(self) -> str:
        """Waits for a loss; returns its cause."""
        if self.agent:
            event = self.client.event()
            assert event.type == "LOST"
            return str(event.cause)
        event = self.client.next_event(WHILE)
        assert event and event.type is EventType.LOST
        return str(event.cause.name)

    def begin(self, permits: int = 1) -> Callable[[], Any]:
        """Waits for so many permits, or for the latch, in the background. Call the returned function to get the end of the wait."""
        if not self.agent:
            return Running(self.locks[permits].acquire, True, WHILE).result
        pending = self.locks[permits].start("acquire", 1, int(WHILE * 1000), thread=1)
        return lambda: pending.answer().status == "OK"


@pytest.fixture
def counted(
    redis_server: Server, javas: dict[str, Java], name: str, new_agent: Callable[..., Agent]
) -> Iterator[Callable[..., Any]]:
    """counted(who, kind): a semaphore or a latch, the same one for all, of a JVM or of libdlock."""
    with contextlib.ExitStack() as stack:

        def make(who: str, kind: str, **options: Any) -> Any:
            if who in javas:
                return javas[who].lock(name, "permits" if kind == "permit_semaphore" else kind, thread=name)
            if who == "agent":
                return Counted(new_agent().open(redis_server), kind, name, **options)
            return Counted(stack.enter_context(dlock.Client(redis_server.url)), kind, name, **options)

        yield make


def begin(one: Any, operation: str, *words: int) -> Callable[[], Any]:
    """Counted.begin for Java too."""
    if isinstance(one, Counted):
        return one.begin(*words)
    return one.start(operation, *words, int(WHILE * 1000), thread=f"{one.name} b").value  # type: ignore[no-any-return]


OTHERS = ["java2", "agent", "python"]


@pytest.mark.parametrize("who", OTHERS)
def test_permits_of_a_semaphore(redis_server: Server, counted: Callable[..., Any], who: str) -> None:
    one, two = counted("java", "semaphore"), counted(who, "semaphore")
    assert not one.tryAcquire(1, 0) and one.trySetPermits(3) and not two.trySetPermits(5)
    assert one.tryAcquire(2, 0) and two.availablePermits() == 1 and not two.tryAcquire(2, 0)
    wait = begin(two, "tryAcquire", 2)
    assert one.tryAcquire(1, 0)
    one.release(1)
    two.addPermits(1)
    assert wait() and one.availablePermits() == 0 and not one.tryAcquire(1, 50)
    wait = begin(one, "tryAcquire", 1)
    two.release(2)
    assert wait() and two.availablePermits() == 1 and two.drainPermits() == 1 and one.availablePermits() == 0
    wait = begin(two, "tryAcquire", 1)
    one.addPermits(1)
    assert wait()
    two.release(1)
    assert one.delete() and not two.tryAcquire(1, 0) and two.trySetPermits(1) and not one.trySetPermits(1)
    one.delete()
    nothing_left(redis_server)


def test_permits_with_an_end_in_two_jvms(redis_server: Server, counted: Callable[..., Any]) -> None:
    one, two = counted("java", "permit_semaphore"), counted("java2", "permit_semaphore")
    assert one.trySetPermits(2) and not two.trySetPermits(2)
    (kept,), (lent,) = one.acquire(1, -1), two.tryAcquire(1, 0, 400)
    assert len(kept) == len(lent) == 32 and kept != lent and one.acquiredPermits() == 2
    assert not one.tryAcquire(1, 0, -1)
    wait = one.start("acquire", 1, 20_000).answer()  # when the lent permit has expired
    assert wait.took > 0.2 and not two.tryRelease(lent)
    assert one.updateLeaseTime(kept, 300) and not two.updateLeaseTime(lent, 300)
    (last,) = two.acquire(1, 20_000)
    assert not one.tryRelease(kept) and two.tryRelease(last) and not two.tryRelease(last)
    with pytest.raises(JavaError):
        one.release(last)
    two.release(*wait.value)
    assert one.availablePermits() == 2
    two.addPermits(1)
    assert one.availablePermits() == 3 and one.delete()
    nothing_left(redis_server)


@pytest.mark.parametrize("who", ["agent", "python"])
def test_permits_with_an_end(redis_server: Server, counted: Callable[..., Any], name: str, who: str) -> None:
    """Redisson sees libdlock's permits by their ids, may keep or return them; both respect the other's leases."""
    java, ours = counted("java", "permit_semaphore"), counted(who, "permit_semaphore", lease_ms=600)
    assert ours.trySetPermits(2) and not java.trySetPermits(2) and ours.tryAcquire(1, 0)
    permit = ours.permit()
    assert len(permit) == 32 and java.availablePermits() == ours.availablePermits() == java.acquiredPermits() == 1
    (lent,) = java.acquire(1, 400)
    assert lent != permit and ours.availablePermits() == 0
    assert java.updateLeaseTime(permit, 60_000) and java.tryRelease(permit)
    assert ours.lost() == "TAKEN"
    assert not java.tryRelease(permit)
    wait = java.acquire(2, 300)
    assert len(wait) == 2 and java.availablePermits() == 0
    assert ours.begin()()  # when those leases are over
    assert java.acquiredPermits() == 1
    ours.release(1)
    assert java.availablePermits() == 2
    ours.addPermits(-1)
    assert java.availablePermits() == 1 and java.delete()
    nothing_left(redis_server)


@pytest.mark.parametrize("kind", [SEMAPHORE, PERMITS], ids=lambda kind: kind.java)
def test_no_more_holders_than_permits(redis_server: Server, side: MakeSide, name: str, kind: Kind) -> None:
    permits, who = 3, ["java", "java", "java2", "agent", "python"]
    sides = [side(one, kind, thread=f"{place}", permits=permits) for place, one in enumerate(who)]
    for one in sides:
        one.adds = False
    running = [Running(one.load, redis_server, 300) for one in sides]
    turns = [turn for one in running for turn in one.result()]
    steps = sorted([(turn.got, 1) for turn in turns] + [(turn.done, -1) for turn in turns])
    inside = list(itertools.accumulate(step for _, step in steps))
    assert len(turns) == 5 * 300 and max(inside) == permits
    nothing_left(redis_server, but=[name])


@pytest.mark.parametrize("who", OTHERS)
def test_a_latch(redis_server: Server, counted: Callable[..., Any], name: str, who: str) -> None:
    one, two = counted("java", "latch"), counted(who, "latch")
    assert begin(two, "await")()  # there is none: open
    assert one.trySetCount(3) and not two.trySetCount(1) and two.getCount() == 3
    waits = [one.start("await", 20_000, thread=f"{name} {number}") for number in range(2)]
    wait = begin(two, "await")
    wait_until(lambda: listeners(redis_server, f"redisson_countdownlatch__channel__{{{name}}}") == 2)
    one.countDown()
    two.countDown()
    assert not one.start("await", 50).value() and one.getCount() == 1 and not any(wait.done() for wait in waits)
    began = time.monotonic()
    two.countDown()
    assert all(wait.answer().value and wait.answer().done - began < 4 * SOON for wait in waits) and wait()
    assert time.monotonic() - began < 4 * SOON and one.getCount() == two.getCount() == 0
    two.countDown()
    assert two.trySetCount(1) and one.getCount() == 1
    ends = [begin(one, "await"), begin(two, "await")]
    one.countDown()
    assert all(end() for end in ends) and two.getCount() == 0
    nothing_left(redis_server)
