"""rediss+cluster:// and rediss+quorum://: every server must prove its identity, and locks work over TLS as they do without."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Answer, until
from harness.cluster import Cluster, Node
from harness.cluster import until as until_known
from harness.proxy import Proxy
from harness.quorum import Quorum
from harness.sentinel import ask
from harness.server import Server
from harness.tls import Authority, Recorder, Pair, tls_only

SECRET = "s3cret-canary"
CLIENT_HELLO = b"\x16\x03\x01"
SERVER_HELLO = b"\x16\x03\x03"
WORDS = (b"CLIENT", b"AUTH", b"SHARDS", b"EVALSHA", b"SUBSCRIBE", b"redisson", b"kept", SECRET.encode())
USER: dict[str, Any] = {"username": "someone", "password": SECRET}
SOON = {"lease_ms": 4500, "safety_ms": 60_000}  # it is renewed soon, and waiters get messages
Make = Callable[..., Any]


class Papers:
    def __init__(self, make: pytest.TempPathFactory) -> None:
        folder = make.mktemp("papers")
        self.authority, self.foreign = Authority(folder), Authority(folder, "foreign")
        self.server, self.stranger = self.authority.issue("127.0.0.1"), self.foreign.issue("127.0.0.1")
        self.secured = tls_only(self.authority, self.server)
        patience = {"command_timeout_ms": 20_000, "connect_timeout_ms": 20_000}
        self.trusting: dict[str, Any] = {"tls_ca_file": self.authority.file, **patience, **USER}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory)


def admit(*servers: Server) -> None:
    for server in servers:
        ask(server, "ACL", "SETUSER", "someone", "reset", "on", ">" + SECRET, "~*", "&*", "+@all")


def silent(answer: Answer) -> None:
    assert SECRET not in answer.message and "PRIVATE" not in answer.message, answer


# ---- a cluster


class Guarded(Cluster):
    """Three primaries that accept TLS only. They announce proxies to clients: of the TLS port, and of a plain port that nobody may use."""

    def __init__(self, papers: Papers) -> None:
        super().__init__(3, 0, 1000, "--tls-cluster", "yes", secured=papers.secured)
        self.fronts = [Proxy((node.host, node.port)) for node in self.nodes]
        self.traps = [Proxy((node.host, node.port)) for node in self.nodes]
        for node, front, trap in zip(self.nodes, self.fronts, self.traps):
            self.announce(node, front.port, trap.port)
        admit(*self.nodes)

    def announce(self, node: Node, secured: int, plain: int) -> None:
        """The ports by which all servers know it from now on."""
        ask(node, "CONFIG", "SET", "cluster-announce-port", plain, "cluster-announce-tls-port", secured)
        until_known(lambda: all(self.told(one)[node.id] == (plain, secured) for one in self.nodes))

    @staticmethod
    def told(node: Node) -> dict[bytes, tuple[int, int]]:
        """The ports of all servers, as one server lists them."""
        found = {}
        for shard in ask(node, "CLUSTER", "SHARDS"):
            for words in dict(zip(shard[::2], shard[1::2]))[b"nodes"]:
                about = dict(zip(words[::2], words[1::2]))
                found[about[b"id"]] = about.get(b"port", 0), about.get(b"tls-port", 0)
        return found

    @property
    def url(self) -> str:
        return "rediss+cluster://" + ",".join(f"127.0.0.1:{front.port}" for front in self.fronts)

    def moved(self) -> int:
        """How often the servers replied MOVED."""
        lines = [line for node in self.nodes for line in ask(node, "INFO", "errorstats").splitlines() if line.startswith(b"errorstat_MOVED")]
        return sum(int(line.partition(b"count=")[2]) for line in lines)

    def after(self, node: Node) -> Node:
        return self.nodes[(self.nodes.index(node) + 1) % 3]

    def stop(self) -> None:
        super().stop()
        for proxy in (*self.fronts, *self.traps):
            proxy.close()


@pytest.fixture(scope="module")
def _cluster(papers: Papers) -> Iterator[Guarded]:
    up = Guarded(papers)
    with up:
        yield up


@pytest.fixture
def cluster(_cluster: Guarded) -> Iterator[Guarded]:
    """No test may connect to a plain port, nor send anything but TLS to a TLS port."""
    _cluster.flush()
    before = [trap.connections for trap in _cluster.traps]
    seen = [front.up.on(word) for front in _cluster.fronts for word in WORDS]
    yield _cluster
    assert [hook.count for hook in seen] == [0] * len(seen) and [trap.connections for trap in _cluster.traps] == before


def test_a_cluster(new_agent: Make, papers: Papers, cluster: Guarded) -> None:
    """On every primary: two processes hand a lock on, woken by messages; it is renewed meanwhile."""
    clients = [new_agent().open(cluster, **SOON, **papers.trusting) for _ in range(2)]
    hellos = [(front.up.on(CLIENT_HELLO), front.down.on(SERVER_HELLO)) for front in cluster.fronts]
    for index, node in enumerate(cluster.nodes):
        mine, theirs = (client.lock(cluster.key_of(node, "kept")) for client in clients)
        token = mine.acquire(1, 20_000).ok.token
        renewed = clients[0].counters()["renewed"]
        assert theirs.acquire(1, 0).status == "BUSY"
        wait = theirs.start("acquire", 1, 20_000, thread=index + 1)
        until(lambda: theirs.state(1) == "WAITING")
        until(lambda: clients[0].counters()["renewed"] >= renewed + 2)
        assert mine.state(1) == "HELD" and ask(node, "EXISTS", cluster.key_of(node, "kept")) == 1
        mine.release(1).ok
        assert wait.answer().ok.token > token
        theirs.release(1).ok
        assert ask(node, "EXISTS", cluster.key_of(node, "kept")) == 0
    assert all(up.count > 0 and down.count > 0 for up, down in hellos)
    counted = [client.counters() for client in clients]
    assert counted[1]["pushed_grants"] > 0 and counted[0]["lost"] == counted[1]["lost"] == 0, counted


def test_moved_over_tls(agent: Agent, papers: Papers, cluster: Guarded) -> None:
    """To the TLS port: within the call, and held locks go on."""
    client = agent.open(cluster, **SOON, **papers.trusting)
    lock, held = client.lock("{kept}"), client.lock("held{kept}")
    token, before = held.acquire(1, 20_000).ok.token, cluster.moved()
    for _ in range(3):
        target = cluster.after(cluster.owner("kept"))
        cluster.migrate(cluster.slot("kept"), target)
        lock.acquire(1, 0).ok
        assert ask(target, "EXISTS", "{kept}") == 1
        lock.release(1).ok
    renewed = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > renewed)
    assert cluster.moved() - before >= 2  # a map refresh may come first
    assert held.state(1) == "HELD" and held.token(1).ok.token == token
    held.release(1).ok


def test_a_cluster_of_another_authority(agent: Agent, papers: Papers, cluster: Guarded) -> None:
    client = agent.open(cluster, tls_ca_file=papers.foreign.file, **USER)
    answer = client.lock("kept").acquire(1, 0)
    assert answer.status == "TLS_FAILED" and "'kept'" in answer.message and "authority" in answer.message, answer
    assert any(f"127.0.0.1:{front.port}" in answer.message for front in cluster.fronts)
    silent(answer)
    silent(client.ping(5000))


@pytest.mark.parametrize("told", [True, False], ids=["told", "not_told"])
def test_touched_while_it_moves(agent: Agent, cluster: Guarded, papers: Papers, told: bool) -> None:
    """Its client has the old server move it over TLS. When the user may not ask whether servers speak TLS with each other, it waits."""
    admit(*cluster.nodes)
    for node in cluster.nodes:
        ask(node, "ACL", "SETUSER", "someone", *([] if told else ["-config|get"]))
    client = agent.open(cluster, **{**SOON, **papers.trusting, "command_timeout_ms": 20_000 if told else 1000})
    lock, slot = client.lock("{kept}"), cluster.slot("kept")
    token = lock.acquire(1, 20_000).ok.token
    lock.release(1).ok
    with cluster.moving(slot, cluster.after(cluster.owner("kept"))) as (source, _):
        answer = lock.acquire(1, 0)
        silent(answer)
        left = ask(source, "CLUSTER", "COUNTKEYSINSLOT", slot)
        if told:
            assert answer.ok.token > token and left == 0
        else:
            assert answer.status == "SERVER_LOADING" and "passwords without TLS" in answer.message and left > 0, answer
    admit(*cluster.nodes)
    if told:
        lock.release(1).ok


def test_a_plain_url_of_a_cluster_with_tls(agent: Agent, papers: Papers, cluster: Guarded) -> None:
    """The plain bytes that the other tests must not see are seen here: the control of the fixture."""
    port = cluster.nodes[0].port
    answer = agent.open(f"redis+cluster://127.0.0.1:{port}").lock("kept").acquire(1, 0)
    assert answer.status in ("UNREACHABLE", "TLS_FAILED") and "rediss" in answer.message, answer
    assert f"127.0.0.1:{port}" in answer.message
    with Proxy(("127.0.0.1", port)) as front:
        seen = front.up.on(b"CLIENT")
        agent.open(f"redis+cluster://127.0.0.1:{front.port}").ping(200)
        seen.wait()


def test_a_primary_must_prove_who_it_is(agent: Agent, papers: Papers, cluster: Guarded) -> None:
    """The servers that name it are trusted. It gets no password, and the others are not affected."""
    node, other = cluster.nodes[1:]
    front, trap = (proxies[1].port for proxies in (cluster.fronts, cluster.traps))
    with Recorder(papers.stranger) as recorder:
        cluster.announce(node, recorder.port, trap)
        try:
            client = agent.open(cluster.url.replace(f"127.0.0.1:{front},", ""), **papers.trusting)
            answer = client.lock(cluster.key_of(node)).acquire(1, 0)
            assert answer.status == "TLS_FAILED" and f"127.0.0.1:{recorder.port} has a certificate" in answer.message, answer
            silent(answer)
            lock = client.lock(cluster.key_of(other))
            lock.acquire(1, 0).ok
            lock.release(1).ok
            assert recorder.received == b"" and recorder.failed
        finally:
            cluster.announce(node, front, trap)


# ---- a quorum


class Voters(Quorum):
    def __init__(self, papers: Papers) -> None:
        super().__init__(5, of=lambda *options: Server(*options, secured=papers.secured))  # type: ignore[arg-type]
        self.papers = papers
        admit(*self.nodes)

    @property
    def url(self) -> str:
        return super().url.replace("redis", "rediss", 1)

    @contextlib.contextmanager
    def down(self, *numbers: int) -> Iterator[None]:
        for number in numbers:
            self.nodes[number].kill()
        try:
            yield
        finally:
            for number in numbers:
                self.nodes[number].start()
                admit(self.nodes[number])

    @contextlib.contextmanager
    def foreign(self, number: int) -> Iterator[None]:
        """One server has the certificate of an unknown authority."""
        self._shows(number, self.papers.stranger)
        try:
            yield
        finally:
            self._shows(number, self.papers.server)

    def _shows(self, number: int, pair: Pair) -> None:
        self.nodes[number].command("CONFIG", "SET", "tls-cert-file", pair.cert, "tls-key-file", pair.key)

    def said(self, answer: Answer) -> list[str]:
        """The part of each server in a sentence; "no answer" if its answer came after the decision."""
        return [answer.message.split(f"127.0.0.1:{node.port} ")[1].split(",")[0].rstrip(".") for node in self.nodes]


@pytest.fixture(scope="module")
def _voters(papers: Papers) -> Iterator[Voters]:
    up = Voters(papers)
    with up:
        yield up


@pytest.fixture
def voters(_voters: Voters) -> Voters:
    _voters.flush()
    return _voters


def test_a_quorum(new_agent: Make, papers: Papers, voters: Voters) -> None:
    clients = [new_agent().open(voters, **SOON, **papers.trusting) for _ in range(2)]
    mine, theirs = (client.lock("kept") for client in clients)
    token = mine.acquire(1, 20_000).ok.token
    until(lambda: voters.held("kept") == 5)
    assert theirs.acquire(1, 0).status == "BUSY"
    wait = theirs.start("acquire", 1, 20_000, thread=1)
    until(lambda: theirs.state(1) == "WAITING" and clients[0].counters()["renewed"] >= 2)
    assert mine.state(1) == "HELD"
    mine.release(1).ok
    assert wait.answer().ok.token > token
    theirs.release(1).ok
    until(lambda: voters.held("kept") == 0)
    assert all(client.counters()["lost"] == 0 for client in clients)


def test_two_of_five_down(agent: Agent, papers: Papers, voters: Voters) -> None:
    """Clients that connect now, and clients that were connected before."""
    client = agent.open(voters, lease_ms=4500, **papers.trusting)
    held, lock = client.lock("held"), client.lock("kept")
    held.acquire(1, 20_000).ok
    with voters.down(1, 3):
        lock.acquire(1, 20_000).ok
        renewed = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= renewed + 2)
        assert held.state(1) == lock.state(1) == "HELD" and voters.held("kept") == 3
        lock.release(1).ok
        fresh = agent.open(voters, **papers.trusting).lock("fresh")
        fresh.acquire(1, 20_000).ok
        fresh.release(1).ok
        held.release(1).ok


def test_one_with_a_foreign_certificate(agent: Agent, papers: Papers, voters: Voters) -> None:
    """It does not vote; if it is needed, the sentence names it."""
    with voters.foreign(2):
        client = agent.open(voters, **papers.trusting)
        lock = client.lock("kept")
        lock.acquire(1, 20_000).ok
        until(lambda: voters.held("kept") == 4)
        assert voters.holders("kept")[2] == b""
        lock.release(1).ok
        until(lambda: voters.held("kept") == 0)
        with voters.down(0, 4):
            answer = agent.open(voters, **papers.trusting).lock("kept").acquire(1, 0)
            assert answer.status == "UNREACHABLE" and answer.message.startswith("lock 'kept' at ") and "3 must" in answer.message, answer
            said = voters.said(answer)
            assert said[::2] == ["unreachable", "TLS failed", "unreachable"] and set(said[1::2]) <= {"yes", "no answer"}, answer
            silent(answer)
            until(lambda: voters.held("kept") == 0)


def test_a_quorum_of_another_authority(agent: Agent, papers: Papers, voters: Voters) -> None:
    client = agent.open(voters, tls_ca_file=papers.foreign.file, **USER)
    answer = client.lock("kept").acquire(1, 0)
    assert answer.status == "TLS_FAILED" and answer.message.startswith("lock 'kept' at "), answer
    assert voters.said(answer).count("TLS failed") >= 3 and set(voters.said(answer)) <= {"TLS failed", "no answer"}, answer
    silent(answer)
    event = client.event()
    assert event.type == "LOG" and "tls_ca_file" in event.text and SECRET not in event.text, event


def test_a_wrong_password_within_tls(agent: Agent, papers: Papers, voters: Voters) -> None:
    answer = agent.open(voters, **{**papers.trusting, "password": SECRET + "-old"}).lock("kept").acquire(1, 0)
    assert answer.status == "DENIED" and voters.said(answer).count("denied") >= 3, answer
    silent(answer)
