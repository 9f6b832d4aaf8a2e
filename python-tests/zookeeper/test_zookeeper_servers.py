"""URLs of ZooKeeper, options, users and passwords, TLS, and what is refused."""
from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any, Callable

import pytest
from kazoo.security import make_acl, make_digest_acl

from harness.agent import Agent
from harness.build import ROOT, build_library, clean_env
from harness.engines.command import check_command
from harness.zookeeper import Zookeeper
from harness.tls import Authority, Pair
from harness.waiting import until

Make = Callable[..., Any]


# ---- URLs and options


@pytest.mark.parametrize("url", ["zookeeper://", "zookeeper://host:0", "zookeeper://host/a//b", "zookeeper://a,,b", "zookeeper:host", "zookeeper+unix:///x"])
def test_urls_that_are_none(agent: Agent, url: str) -> None:
    assert agent.try_open(url).status == "INVALID_URL"


@pytest.mark.parametrize("option", [
    "db=1", "client_name=x", "private_connections=2", "busy_poll_us=10", "quarantine_ms=60000", "replicas=1", "token_ttl_ms=86400000",
    "min_hold_ms=5", "lock_delay_ms=5", "sentinel_username=x", "quorum=2", "cluster_pubsub=plain", "tls_verify=true",
])  # fmt: skip
def test_options_that_mean_nothing_to_zookeeper(agent: Agent, option: str) -> None:
    name, _, value = option.partition("=")
    answer = agent.try_open("zookeeper://127.0.0.1:1", **{name: value})
    assert answer.status in ("INVALID_OPTION", "UNSUPPORTED") and name in answer.message, answer


def test_options_of_a_lock_that_mean_nothing_to_zookeeper(zookeeper: Zookeeper, agent: Agent) -> None:
    client = agent.open(zookeeper)
    for option in ("min_hold_ms", "lock_delay_ms"):
        answer = client.new("job", **{option: 5})
        assert answer.status == "INVALID_OPTION" and option in answer.message


@pytest.mark.parametrize("kind", ["semaphore"])
def test_kinds_that_zookeeper_does_not_have(zookeeper: Zookeeper, agent: Agent, kind: str) -> None:
    answer = agent.open(zookeeper).new("job", kind)
    assert answer.status == "UNSUPPORTED" and "on ZooKeeper there are mutexes, fair and read-write locks, permit semaphores, latches" in answer.message, answer


def test_what_zookeeper_does_not_do(zookeeper: Zookeeper, agent: Agent) -> None:
    client = agent.open(zookeeper)
    lock = client.lock("job")
    lock.acquire(1, 0).ok
    assert lock.export(1).status == "UNSUPPORTED"
    assert agent("txn", client.index).status == "UNSUPPORTED"
    assert lock.state(1) == "HELD"


# ---- what it says


def test_an_inspection(zookeeper: Zookeeper, agent: Agent) -> None:
    client = agent.open(zookeeper, lease_ms=20000)
    lock = client.lock("job")
    token = lock.acquire(1, 0).ok.token
    event = lock.inspect().ok.event
    assert (event.token, event.remaining, event.waiters) == (token, -1, 0) and not event.foreign
    lock.release(1).ok
    node = zookeeper.admin.create("/job/_c_6b6bb4a8-0f1b-4b7e-9d33-5a4a7a5a9ed1-lock-", ephemeral=True, sequence=True, makepath=True)
    event = lock.inspect().ok.event
    assert event.text == "6b6bb4a8-0f1b-4b7e-9d33-5a4a7a5a9ed1" and event.foreign and event.token > token
    assert lock.acquire(1, 0).status == "BUSY"
    lock.force().ok
    assert zookeeper.admin.exists(node) is None
    lock.acquire(1, 0).ok


def test_a_ping_and_a_check(zookeeper: Zookeeper, agent: Agent) -> None:
    client = agent.open(zookeeper)
    client.ping(5000).ok
    assert client.check(5000).ok.status == "OK"


def test_a_check_of_members_that_are_down(new_zookeeper: Make, agent: Agent) -> None:
    """Those that do not answer are named; without most of them, the rest has no leader."""
    zookeeper = new_zookeeper(3)
    client = agent.open(zookeeper)
    first, second, third = zookeeper.members
    first.kill()
    until(lambda: second.mode() and third.mode(), timeout=30)
    answer = client.check(20000).ok
    ((name, _, text),) = answer.findings
    assert name == "NO_ANSWER" and str(first.port) in text, answer
    second.kill()
    until(lambda: not third.mode(), timeout=30)
    answer = client.check(20000)
    assert answer.status == "UNREACHABLE" and "has no leader" in answer.message, answer


def test_a_node_that_can_have_none_below_it(zookeeper: Zookeeper, agent: Agent) -> None:
    """A node that cannot be made is refused with the reason."""
    zookeeper.admin.create("/job", b"", ephemeral=True)
    answer = agent.open(zookeeper).lock("job").acquire(1, 0)
    assert answer.status == "WRONG_KIND" and "ephemeral" in answer.message, answer


# ---- users


LOCKS = {"username": "locks", "password": "secret of locks"}


def test_users(zookeeper: Zookeeper, new_agent: Make) -> None:
    """Nodes that a user makes are that user's alone."""
    lock = new_agent().open(zookeeper, **LOCKS).lock("job")
    token = lock.acquire(1, 0).ok.token
    zookeeper.admin.add_auth("digest", "locks:secret of locks")
    (node,) = zookeeper.nodes("job")
    for path in ("/job", f"/job/{node}"):
        (rule,) = zookeeper.admin.get_acls(path)[0]
        assert (rule.perms, rule.id.scheme, rule.id.id.split(":")[0]) == (31, "digest", "locks")
    for given in ({}, {"username": "locks", "password": "wrong"}):
        answer = new_agent().open(zookeeper, **given).lock("job").acquire(1, 0)
        assert answer.status == "DENIED" and str(zookeeper.members[0].port) in answer.message, answer
        assert "wrong" not in answer.message and "secret" not in answer.message
    lock.release(1).ok
    second = new_agent().open(zookeeper, **LOCKS).lock("job")
    assert second.acquire(1, 0).ok.token > token
    second.release(1).ok


def test_nodes_without_a_user_are_everybodys(zookeeper: Zookeeper, agent: Agent) -> None:
    agent.open(zookeeper).lock("job").acquire(1, 0).ok
    (rule,) = zookeeper.admin.get_acls(f"/job/{zookeeper.nodes('job')[0]}")[0]
    assert (rule.perms, rule.id.scheme, rule.id.id) == (31, "world", "anyone")


def test_gates_where_users_may_make_no_nodes(new_zookeeper: Make, new_agent: Make) -> None:
    """Then an operator makes the node of gates, as the docs say."""
    zookeeper = new_zookeeper()
    zookeeper.admin.add_auth("digest", "operator:of the shop")
    operator, everybody = make_digest_acl("operator", "of the shop", all=True), make_acl("world", "anyone", all=True)
    zookeeper.admin.create("/shop", acl=[operator, make_acl("world", "anyone", read=True)])
    zookeeper.admin.create("/shop/locks", acl=[everybody])
    url = zookeeper.url + "/shop"
    users = [new_agent().open(url, **user) for user in (LOCKS, {"username": "others", "password": "theirs"})]
    answer = users[0].lock("locks/job").close_gate(60_000)
    assert answer.status == "DENIED" and "dlock_gates" in answer.message, answer
    zookeeper.admin.create("/shop/dlock_gates", acl=[everybody])
    for number in range(80):  # more names than bells: some bells are used by both
        lock = users[number % 2].lock(f"locks/{number}")
        lock.close_gate(60_000).ok
        assert lock.acquire(1, 0).status == "GATE_CLOSED"


def test_the_command(zookeeper: Zookeeper) -> None:
    check_command(zookeeper, lambda: len(zookeeper.nodes("job")) == 2)


# ---- TLS


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Pair, Pair]:
    authority = Authority(tmp_path_factory.mktemp("papers"))
    return authority, authority.issue("127.0.0.1", "localhost"), authority.issue("client")


def secured(papers: tuple[Authority, Pair, Pair], folder: pathlib.Path, clients: bool) -> list[str]:
    authority, server, _ = papers
    both = folder / "server.pem"
    both.write_text(server.key.read_text() + server.cert.read_text())
    return [
        f"ssl.keyStore.location={both}", "ssl.keyStore.type=PEM", f"ssl.trustStore.location={authority.file}",
        "ssl.trustStore.type=PEM", f"ssl.clientAuth={'need' if clients else 'none'}",
    ]  # fmt: skip


@pytest.mark.parametrize("clients", [False, True], ids=["one way", "both ways"])
def test_tls(new_zookeeper: Make, agent: Agent, papers: tuple[Authority, Pair, Pair], tmp_path: pathlib.Path, clients: bool) -> None:
    zookeeper = new_zookeeper(*secured(papers, tmp_path, clients))
    authority, _, mine = papers
    given = {"tls_ca_file": authority.file, **({"tls_cert_file": mine.cert, "tls_key_file": mine.key} if clients else {})}
    lock = agent.open(zookeeper.secure_url, **given).lock("job")
    first = lock.acquire(1, 5000).ok.token
    lock.release(1).ok
    assert lock.acquire(1, 0).ok.token > first


def test_tls_that_fails(new_zookeeper: Make, agent: Agent, papers: tuple[Authority, Pair, Pair], tmp_path: pathlib.Path) -> None:
    zookeeper = new_zookeeper(*secured(papers, tmp_path, False))
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    answer = agent.open(zookeeper.secure_url, tls_ca_file=other.file).lock("job").acquire(1, 5000)
    assert answer.status == "TLS_FAILED" and "tls_ca_file" in answer.message, answer
    answer = agent.open(zookeeper.secure_url.replace("zookeepers", "zookeeper")).lock("job").acquire(1, 500)
    assert answer.status in ("UNREACHABLE", "PROTOCOL_ERROR", "TIMED_OUT"), answer


def test_a_port_without_tls(zookeeper: Zookeeper, agent: Agent) -> None:
    answer = agent.open(zookeeper.url.replace("zookeeper", "zookeepers", 1)).lock("job").acquire(1, 0)
    assert answer.status in ("TLS_FAILED", "UNREACHABLE") and "TLS" in answer.message, answer


# ---- other servers


def test_a_server_that_is_redis(redis_server: Any, agent: Agent) -> None:
    answer = agent.open(f"zookeeper://127.0.0.1:{redis_server.port}").lock("job").acquire(1, 0)
    assert answer.status in ("PROTOCOL_ERROR", "UNREACHABLE") and str(redis_server.port) in answer.message, answer



def test_a_chroot(zookeeper: Zookeeper, new_agent: Make) -> None:
    """Names are below it, and it is made when it is not there."""
    client, other = new_agent().open(zookeeper.url + "/deep/root"), new_agent().open(zookeeper)
    client.lock("job").acquire(1, 0).ok
    assert len(zookeeper.nodes("deep/root/job")) == 1
    assert other.lock("deep/root/job").acquire(1, 0).status == "BUSY"
    waiting = other.lock("deep/root/job").start("acquire", 1, -1)
    until(lambda: len(zookeeper.nodes("deep/root/job")) == 2)
    client.lock("job").release(1).ok
    waiting.answer().ok


def test_ipv6(new_zookeeper: Make, agent: Agent) -> None:
    zookeeper = new_zookeeper("clientPortAddress=::1")
    agent.open(f"zookeeper://[::1]:{zookeeper.members[0].port}").lock("job").acquire(1, 0).ok


# ---- a build without ZooKeeper


@pytest.mark.full
@pytest.mark.house
@pytest.mark.timeout(300)
def test_a_build_without_zookeeper(tmp_path: pathlib.Path) -> None:
    """It says so by the name of the build option, needs no library of zookeeper's, and does the rest."""
    library = build_library(tmp_path, "-Dzookeeper=disabled", "-Dwerror=true")
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "hiredis" in needed
    text = """
import sys
sys.path.insert(0, sys.argv[1])
import ctypes, os, dlock
library = ctypes.CDLL(os.environ["DLOCK_LIBRARY"])
assert not library.dlock_supports(b"zookeeper") and library.dlock_supports(b"mutex")
dlock.Client("redis://127.0.0.1:1").close()
try:
    dlock.Client("zookeeper://127.0.0.1:1")
except dlock.Unsupported as error:
    print(error)
"""
    environment = clean_env(DLOCK_LIBRARY=str(library))
    done = subprocess.run([sys.executable, "-c", text, ROOT / "bindings/python"], env=environment, capture_output=True, text=True)
    assert done.stderr == "" and "build option zookeeper" in done.stdout
