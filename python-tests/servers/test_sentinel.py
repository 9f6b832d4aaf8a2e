"""redis+sentinel://: the primary is found, lost and found again; sentinels that are dead, silent, wrong or lying."""
from __future__ import annotations

import threading
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, now, until
from harness.fake import FakeServer
from harness.faults import times
from harness.sentinel import SERVICE, Sentinel, Watched, ask
from harness.server import Server
from harness.tally import tell
from harness.turns import Turns

Make = Callable[..., Any]


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with Watched() as up:
        yield up


@pytest.fixture
def new_watched() -> Iterator[Make]:
    made: list[Watched] = []

    def make(**how: int) -> Watched:
        made.append(Watched(**how))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def place(server: Any) -> bytes:
    """A sentinel's reply about it."""
    port = str(server.port).encode()
    return b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n" % (len(port), port)


def url(*sentinels: Any, service: str = SERVICE, db: str = "") -> str:
    return f"redis+sentinel://{','.join(f'127.0.0.1:{one.port}' for one in sentinels)}/{service}{db}"


@pytest.fixture
def liar() -> Iterator[FakeServer]:
    with FakeServer() as fake:
        yield fake


# ---- normal operation


def test_the_primary_is_found(agent: Agent, watched: Watched) -> None:
    lock = agent.open(watched.url).lock("found")
    token = lock.acquire(1, 0).ok.token
    assert ask(watched.primary(), "HLEN", "found") == 1
    lock.release(1).ok
    assert lock.acquire(1, 0).ok.token > token
    lock.release(1).ok
    assert b"name=dlock" not in ask(watched.replica(), "CLIENT", "LIST")


def test_a_database_and_waiting(agent: Agent, new_agent: Make, watched: Watched) -> None:
    client, other = agent.open(watched.url + "/3"), new_agent().open(watched.url + "/3")
    mine, theirs = client.lock("waited"), other.lock("waited")
    mine.acquire(1, 0).ok
    wait = theirs.start("acquire", 2, -1, thread=1)
    until(lambda: theirs.state(2) == "WAITING")
    mine.release(1).ok
    wait.answer().ok
    with watched.primary().client() as redis:
        redis.command("SELECT", 3)
        assert redis.command("HLEN", "waited") == 1
    theirs.release(2).ok


def test_transactions_find_it_too(agent: Agent, watched: Watched) -> None:
    txn = agent.open(watched.url).txn()
    txn.watch("stock").ok
    txn.set("stock", "7", -1).ok
    txn.commit().ok
    assert ask(watched.primary(), "GET", "stock") == b"7"
    txn.end_txn()


# ---- useless sentinels


def test_another_sentinel_is_asked(agent: Agent, watched: Watched, liar: FakeServer, new_server: Make) -> None:
    """One is dead, one is not a sentinel, one replies nonsense: another one knows, also when one of them is slow."""
    dead = new_server()
    dead.kill()
    liar.on("SENTINEL", b"$3\r\nyes\r\n")
    agent.open(url(dead, new_server(), liar, *watched.sentinels), connect_timeout_ms=6000).ping(15_000).ok
    assert liar.count("SENTINEL") == 1


def test_dead_sentinels_take_no_time(agent: Agent, watched: Watched, new_server: Make) -> None:
    """Each refuses at once: its share of the minute is not used."""
    dead = [new_server(), new_server(), new_server()]
    for server in dead:
        server.kill()
    agent.open(url(*dead, *watched.sentinels), connect_timeout_ms=60_000).ping(15_000).ok
    answer = agent.open(url(*dead), connect_timeout_ms=60_000, command_timeout_ms=60_000).start("ping", -1).answer()
    assert answer.status == "UNREACHABLE"


def test_a_silent_sentinel_takes_its_share_of_the_time(agent: Agent, watched: Watched, liar: FakeServer) -> None:
    silent = threading.Event()
    liar.on("SENTINEL", lambda link, words: b"" if not silent.set() else None)
    agent.open(url(liar, *watched.sentinels), connect_timeout_ms=6000).ping(15_000).ok
    assert silent.is_set()


WRONG = {
    "unknown service": (b"*-1\r\n", "UNREACHABLE", "knows no such service"),
    "a word": (b"+OK\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "one word": (b"*1\r\n$1\r\nx\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "no host": (b"*2\r\n$0\r\n\r\n$4\r\n6379\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "a host behind which more comes": (b"*2\r\n$60010\r\n127.0.0.1\0" + 60_000 * b"A" + b"\r\n$4\r\n6379\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "too long a host": (b"*2\r\n$60000\r\n" + 60_000 * b"a" + b"\r\n$4\r\n6379\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "odd host": (b"*2\r\n$3\r\na b\r\n$4\r\n6379\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "no port": (b"*2\r\n$9\r\n127.0.0.1\r\n$0\r\n\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "port 0": (b"*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "port too high": (b"*2\r\n$9\r\n127.0.0.1\r\n$5\r\n65536\r\n", "PROTOCOL_ERROR", "as a sentinel does"),
    "an error": (b"-NOPERM this user has no permissions\r\n", "DENIED", "refuses to say where"),
}


@pytest.mark.parametrize("reply, status, words", WRONG.values(), ids=WRONG)
def test_e10_answers_that_name_no_primary(agent: Agent, liar: FakeServer, reply: bytes, status: str, words: str) -> None:
    liar.on("SENTINEL", reply)
    answer = agent.open(url(liar)).ping(5000)
    assert answer.status == status and words in answer.message
    assert f"127.0.0.1:{liar.port}" in answer.message and SERVICE in answer.message
    tell(done=1, fired=liar.count("SENTINEL"))


def bulk(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


@pytest.mark.parametrize("count", [b"x", b"", b"-1", b"1x", b"4294967297"])
def test_e10_a_count_of_replicas_that_is_none(agent: Agent, liar: FakeServer, count: bytes) -> None:
    """Read as 0, it would accept grants that no replica has."""
    place, about = bulk(b"127.0.0.1", b"1"), bulk(b"num-slaves", count)
    liar.on("SENTINEL", lambda _, words: place if words[1] == b"get-master-addr-by-name" else about)
    answer = agent.open(url(liar), replicas="all").ping(5000)
    assert answer.status == "PROTOCOL_ERROR" and "how many replicas" in answer.message
    tell(done=1, fired=liar.count("SENTINEL"))


def test_a_service_is_printable_in_sentences(agent: Agent, liar: FakeServer) -> None:
    liar.on("SENTINEL", bulk(b"127.0.0.1", b"1"))
    answer = agent.open(f"redis+sentinel://127.0.0.1:{liar.port}/odd%1B[1mname").ping(5000)
    assert answer.status == "UNREACHABLE" and answer.message.isprintable() and "name" in answer.message


def test_a_server_that_is_no_sentinel(agent: Agent, redis_server: Server) -> None:
    answer = agent.open(url(redis_server)).ping(5000)
    assert answer.status == "SERVER_ERROR" and "is no sentinel" in answer.message


def test_e10_no_grant_comes_from_a_replica(agent: Agent, watched: Watched, liar: FakeServer) -> None:
    """The sentinel lies, or does not know of a failover yet."""
    replica = watched.replica()
    liar.on("SENTINEL", place(replica))
    lock = agent.open(url(liar)).lock("lie")
    answer = lock.acquire(1, 0)
    assert answer.status == "UNREACHABLE" and "is not a primary" in answer.message
    assert f"127.0.0.1:{replica.port}" in answer.message
    wait = lock.start("acquire", 1, -1, thread=1)
    until(lambda: liar.count("SENTINEL") > 2)  # it keeps asking
    liar.on("SENTINEL", place(watched.primary()))
    wait.answer().ok
    lock.release(1).ok
    tell(done=1, fired=liar.count("SENTINEL"))


def test_e10_a_sentinel_that_names_itself_or_nobody(agent: Agent, liar: FakeServer) -> None:
    liar.on("SENTINEL", place(liar))
    answer = agent.open(url(liar)).ping(5000)
    assert answer.status == "PROTOCOL_ERROR"  # it replies OK to ROLE
    liar.on("ROLE", b"*5\r\n$5\r\nslave\r\n$1\r\nx\r\n:1\r\n$9\r\nconnected\r\n:1\r\n")
    assert agent.open(url(liar)).ping(5000).status == "UNREACHABLE"
    liar.on("ROLE", b"-NOPERM no\r\n")
    answer = agent.open(url(liar)).ping(5000)
    assert answer.status == "DENIED" and "does not say its role" in answer.message
    tell(done=3, fired=liar.count("ROLE"))


def test_logins_are_of_sentinels_and_of_servers(agent: Agent, new_server: Make) -> None:
    primary = new_server("--requirepass", "server-secret")
    with primary.client() as redis:
        redis.command("AUTH", "server-secret")
    with Sentinel(primary, 1, "requirepass sentinel-secret", f"sentinel auth-pass {SERVICE} server-secret") as guard:
        where = url(guard)
        both = {"password": "server-secret", "sentinel_password": "sentinel-secret"}
        agent.open(where, **both).ping(5000).ok
        for missing in both:
            answer = agent.open(where, **{name: "wrong" if name == missing else word for name, word in both.items()}).ping(5000)
            assert answer.status == "DENIED" and "secret" not in answer.message and "wrong" not in answer.message
        assert agent.open(where).ping(5000).status == "DENIED"


def test_the_user_of_sentinels(agent: Agent, new_server: Make) -> None:
    login = {"sentinel_username": "guest", "sentinel_password": "sentinel-secret"}
    with Sentinel(new_server(), 1, "user guest on >sentinel-secret +@all", "user default off") as guard:
        agent.open(url(guard), **login).ping(5000).ok
        for wrong in ({}, {"sentinel_username": "default"}, {"sentinel_username": "nobody"}):
            answer = agent.open(url(guard), **(login | wrong if wrong else {})).ping(5000)
            assert answer.status == "DENIED" and "secret" not in answer.message


# ---- the primary changes


def test_e06_a_server_that_is_demoted_is_left(agent: Agent, new_server: Make, liar: FakeServer) -> None:
    """-READONLY ends the connection, with nothing done: the next one asks for the current primary."""
    old, new = new_server(), new_server()
    liar.on("SENTINEL", place(old))
    client = agent.open(url(liar))
    lock, spare = client.lock("moved"), client.lock("spare")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    old.command("REPLICAOF", new.host, new.port)  # its connections stay
    assert spare.acquire(1, 0).status == "UNREACHABLE"
    liar.on("SENTINEL", place(new))
    until(lambda: spare.acquire(1, 0).status == "OK")
    assert ask(new, "HLEN", "spare") == 1
    spare.release(1).ok
    tell(done=1, fired=1)


def test_e11_sentinels_may_all_be_down(agent: Agent, new_watched: Make) -> None:
    """Held locks are renewed, existing connections go on; new ones are refused with the reason."""
    watched = new_watched(replicas=0, sentinels=1)
    client = agent.open(watched.url, lease_ms=700)
    lock = client.lock("kept")
    lock.acquire(1, 0).ok
    until(lambda: client.counters()["renewed"] > 0)
    for sentinel in watched.sentinels:
        sentinel.kill()
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 5)
    assert lock.state(1) == "HELD"
    client.lock("other").acquire(2, 0).ok
    answer = agent.open(watched.url).ping(5000)
    assert answer.status == "UNREACHABLE" and "cannot be reached" in answer.message
    lock.release(1).ok
    tell(done=1)


def test_a_failover_by_order(agent: Agent, new_agent: Make, new_watched: Make) -> None:
    """The replica has the lock: it stays held, with the same token, and the next grant has a higher one."""
    watched = new_watched()
    mine, theirs = agent.open(watched.url).lock("over"), new_agent().open(watched.url).lock("over")
    token = mine.acquire(1, 0).ok.token
    until(lambda: ask(watched.replica(), "EXISTS", "over"))
    wait = theirs.start("acquire", 2, -1, thread=1)
    until(lambda: theirs.state(2) == "WAITING")
    before = watched.port()
    watched.failover()
    assert watched.port() != before and mine.state(1) == "HELD" and mine.token(1).ok.token == token
    assert not wait.ready()
    mine.release(1).ok
    assert wait.answer().ok.token > token
    assert ask(watched.primary(), "HLEN", "over") == 1
    theirs.release(2).ok


@pytest.mark.parametrize("failovers", times(1, 4, 300, 20))
def test_e12_primaries_die_under_load(new_agent: Make, new_watched: Make, failovers: int) -> None:
    """kill -9 and ordered failovers in turn, while four processes take turns. Nobody hangs, no waiter of a free lock is forgotten, and
    grants go on within a second after the sentinels name the new primary. Around a failover two may hold the lock, or the old primary may
    grant for a moment beside the new one: that is counted. All other tokens grow from grant to grant.
    """
    watched = new_watched()
    options = {"lease_ms": 1000, "command_timeout_ms": 500, "safety_ms": 300}
    late = []
    with Turns({"load": [new_agent().open(watched.url, **options).lock("load") for _ in range(4)]}) as turns:
        for number in range(failovers):
            turns.all_go_on()
            before, victim = watched.port(), watched.primary()
            with turns.fault():
                if number % 2 == 0:
                    victim.kill()
                until(lambda: watched.port() != before or (number % 2 and watched.order()), 60)
                late.append(turns.first("load", now()))
                if not victim.process:
                    victim.start()
                    ask(victim, "REPLICAOF", watched.primary().host, watched.port())  # the sentinels would take ten seconds
                Watched.until(watched.settled, 60)  # until then the old primary serves clients that have not left it
        turns.all_go_on()
    tell(done=failovers)
    print("E-12:", turns.judge(300), "| s behind the failover:", *(f"{each:.2f}" for each in late))
    assert len(late) == failovers and max(late) <= 1, late


# ---- bad input

BAD_URLS = [
    "redis+sentinel://localhost",
    "redis+sentinel://localhost/",
    "redis+sentinel:///orders",
    "redis+sentinel://a,,b/orders",
    "redis+sentinel://a,b:0/orders",
    "redis+sentinel://a b/orders",
    "redis+sentinel://a/or%20ders",
    "redis+sentinel://a/" + "x" * 128,
    "redis+sentinel://a/orders/x",
    "redis+sentinel://" + ",".join(["a"] * 17) + "/orders",
]


@pytest.mark.parametrize("bad", BAD_URLS)
def test_bad_urls(agent: Agent, bad: str) -> None:
    answer = agent.try_open(bad)
    assert answer.status == "INVALID_URL" and answer.message


def test_options_that_mean_nothing_are_refused(agent: Agent) -> None:
    assert agent.try_open("redis://localhost", sentinel_password="x").status == "INVALID_OPTION"
    assert agent.try_open("redis+sentinel://localhost/orders", tls_verify="true").status == "INVALID_OPTION"
