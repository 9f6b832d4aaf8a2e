"""URLs of etcd, options, users and passwords, TLS, and what is refused."""
from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any, Callable

import pytest

from harness.agent import Agent
from harness.build import ROOT, build_library, clean_env
from harness.engines.command import check_command
from harness.etcd import Etcd
from harness.etcd.users import CHEAP, LOCKS, enable, forget
from harness.tls import Authority, Pair
from harness.waiting import until

Make = Callable[..., Any]


# ---- URLs and options


@pytest.mark.parametrize("url", ["etcd://", "etcd://host:0", "etcd://host/path", "etcd://a,,b", "etcd:host", "etcd+unix:///x"])
def test_urls_that_are_none(agent: Agent, url: str) -> None:
    assert agent.try_open(url).status == "INVALID_URL"


@pytest.mark.parametrize("option", [
    "db=1", "client_name=x", "private_connections=2", "busy_poll_us=10", "quarantine_ms=60000", "replicas=1", "token_ttl_ms=86400000",
    "sentinel_username=x", "quorum=2", "cluster_pubsub=plain", "tls_verify=true",
])  # fmt: skip
def test_options_that_mean_nothing_to_etcd(agent: Agent, option: str) -> None:
    name, _, value = option.partition("=")
    answer = agent.try_open("etcd://127.0.0.1:1", **{name: value})
    assert answer.status in ("INVALID_OPTION", "UNSUPPORTED") and name in answer.message, answer


def test_options_of_a_lock_that_mean_nothing_to_etcd(etcd: Etcd, agent: Agent) -> None:
    client = agent.open(etcd)
    answer = client.new("job", token_ttl_ms=86400000)
    assert answer.status == "INVALID_OPTION" and "token_ttl_ms" in answer.message


def test_the_kind_that_etcd_does_not_have(etcd: Etcd, agent: Agent) -> None:
    answer = agent.open(etcd).new("job", "semaphore")
    assert answer.status == "UNSUPPORTED" and "on etcd there are mutexes, fair and read-write locks, permit semaphores" in answer.message, answer


def test_what_etcd_does_not_do(etcd: Etcd, agent: Agent) -> None:
    client = agent.open(etcd)
    lock = client.lock("job")
    lock.acquire(1, 0).ok
    assert lock.export(1).status == "UNSUPPORTED"
    assert lock.state(1) == "HELD"


# ---- what it says


def test_an_inspection(etcd: Etcd, agent: Agent) -> None:
    client = agent.open(etcd, lease_ms=20000)
    lock = client.lock("job")
    token = lock.acquire(1, 0).ok.token
    event = lock.inspect().ok.event
    assert event.token == token and 0 < event.remaining <= 20000 and event.waiters == 0 and not event.foreign
    lock.release(1).ok
    etcd.call("kv/put", key="job/694d7a3c0c8a3f85", value="")
    event = lock.inspect().ok.event
    assert event.text == "694d7a3c0c8a3f85" and event.foreign and event.remaining == -1


def test_a_ping_and_a_check(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd("--quota-backend-bytes", str(16 * 1024 * 1024))
    client = agent.open(etcd)
    client.ping(5000).ok
    assert client.check(5000).ok.status == "OK"
    etcd.call("maintenance/alarm", action="ACTIVATE", alarm="NOSPACE", memberID=0)
    answer = client.lock("job").acquire(1, 0)
    assert answer.status == "SERVER_OUT_OF_MEMORY" and "space" in answer.message, answer


# ---- users


def test_users(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd(*CHEAP)
    enable(etcd, job="joc")
    lock = agent.open(etcd, **LOCKS).lock("job")
    token = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    assert token > 0 and etcd.keys("job/") == []


@pytest.mark.parametrize("given", [{"username": "locks", "password": "wrong"}, {"username": "nobody", "password": "x"}, {}])
def test_users_that_are_refused(new_etcd: Make, agent: Agent, given: dict[str, str]) -> None:
    etcd = new_etcd(*CHEAP)
    enable(etcd, job="joc")
    client = agent.open(etcd, **given)
    answer = client.lock("job").acquire(1, 0)
    assert answer.status == "DENIED" and str(etcd.nodes[0].port) in answer.message, answer
    assert "wrong" not in answer.message and "secret" not in answer.message


def test_a_key_that_the_user_may_not_touch(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd(*CHEAP)
    enable(etcd, job="joc")
    client = agent.open(etcd, **LOCKS)
    answer = client.lock("other").acquire(1, 0)
    assert answer.status == "DENIED" and "permission denied" in answer.message, answer
    client.lock("job").acquire(1, 0).ok


def test_credentials_without_users(etcd: Etcd, agent: Agent) -> None:
    answer = agent.open(etcd, **LOCKS).lock("job").acquire(1, 0)
    assert answer.status == "DENIED" and "switched off" in answer.message, answer


def test_a_token_that_ends(new_etcd: Make, agent: Agent) -> None:
    """The server forgets all tokens: the client logs in again, and no call fails."""
    etcd = new_etcd(*CHEAP)
    enable(etcd, job="joc")
    client = agent.open(etcd, **LOCKS)
    lock = client.lock("job")
    for _ in range(3):
        lock.acquire(1, 0).ok
        forget(etcd)
        lock.release(1).ok
    forget(etcd)
    client.lock("jobs", lease_ms=3000).acquire(1, 0).ok  # needs another lease first
    assert client.counters()["connects"] == 1 and etcd.received("Authenticate") >= 1 + 4


def test_the_command(etcd: Etcd) -> None:
    check_command(etcd, lambda: len(etcd.keys("job/")) == 2, warnings=1)


# ---- TLS


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Pair, Pair]:
    authority = Authority(tmp_path_factory.mktemp("papers"))
    return authority, authority.issue("127.0.0.1", "localhost"), authority.issue("client")


def secured(papers: tuple[Authority, Pair, Pair], clients: bool) -> tuple[str, ...]:
    authority, server, _ = papers
    options = ("--cert-file", str(server.cert), "--key-file", str(server.key))
    return (*options, "--trusted-ca-file", str(authority.file), "--client-cert-auth") if clients else options


@pytest.mark.parametrize("clients", [False, True], ids=["one way", "both ways"])
def test_tls(new_etcd: Make, agent: Agent, papers: tuple[Authority, Pair, Pair], clients: bool) -> None:
    etcd = new_etcd(secured=secured(papers, clients))
    authority, _, mine = papers
    given = {"tls_ca_file": authority.file, **({"tls_cert_file": mine.cert, "tls_key_file": mine.key} if clients else {})}
    lock = agent.open(etcd, **given).lock("job")
    first = lock.acquire(1, 5000).ok.token
    lock.release(1).ok
    assert lock.acquire(1, 0).ok.token > first
    if clients:  # Go answers a missing certificate with the alert for a bad one
        answer = agent.open(etcd, tls_ca_file=authority.file).ping(5000)
        assert answer.status == "DENIED" and "wants a client certificate" in answer.message, answer


def test_tls_that_fails(new_etcd: Make, agent: Agent, papers: tuple[Authority, Pair, Pair], tmp_path: pathlib.Path) -> None:
    etcd = new_etcd(secured=secured(papers, False))
    other = Authority(tmp_path)
    answer = agent.open(etcd, tls_ca_file=other.file).lock("job").acquire(1, 5000)
    assert answer.status == "TLS_FAILED" and "tls_ca_file" in answer.message, answer
    answer = agent.open(etcd.url.replace("etcds", "etcd")).lock("job").acquire(1, 500)
    assert answer.status in ("UNREACHABLE", "PROTOCOL_ERROR", "TIMED_OUT"), answer


def test_a_port_without_tls(etcd: Etcd, agent: Agent) -> None:
    answer = agent.open(etcd.url.replace("etcd", "etcds", 1)).lock("job").acquire(1, 0)
    assert answer.status in ("TLS_FAILED", "UNREACHABLE") and "TLS" in answer.message, answer


# ---- other servers


def test_a_server_that_is_redis(redis_server: Any, agent: Agent) -> None:
    answer = agent.open(f"etcd://127.0.0.1:{redis_server.port}").lock("job").acquire(1, 0)
    assert answer.status in ("PROTOCOL_ERROR", "UNREACHABLE") and str(redis_server.port) in answer.message, answer


def test_several_locks_are_one_transaction(etcd: Etcd, new_agent: Make) -> None:
    client, other = new_agent().open(etcd), new_agent().open(etcd)
    locks = [client.lock(f"job{number}") for number in range(4)]
    theirs = other.lock("job2")
    theirs.acquire(1, 0).ok
    both = client.multi(*locks)
    before = etcd.revision()
    assert both.acquire(1, 0).status == "BUSY"
    assert etcd.revision() == before and len(etcd.keys("job")) == 1, "a refusal writes nothing"
    theirs.release(1).ok
    before = etcd.revision()
    both.acquire(1, 0).ok
    assert etcd.revision() == before + 1 and len(etcd.keys("job")) == 4
    both.release(1).ok
    until(lambda: etcd.keys("job") == [])


# ---- a build without etcd


@pytest.mark.full
@pytest.mark.house
@pytest.mark.timeout(300)
def test_a_build_without_etcd(tmp_path: pathlib.Path) -> None:
    """It says so by the name of the build option, needs no library of etcd's, and does the rest."""
    library = build_library(tmp_path, "-Detcd=disabled", "-Dwerror=true")
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "hiredis" in needed and "nghttp2" not in needed and "protobuf" not in needed
    text = """
import sys
sys.path.insert(0, sys.argv[1])
import ctypes, os, dlock
library = ctypes.CDLL(os.environ["DLOCK_LIBRARY"])
assert not library.dlock_supports(b"etcd") and library.dlock_supports(b"mutex")
dlock.Client("redis://127.0.0.1:1").close()
try:
    dlock.Client("etcd://127.0.0.1:1")
except dlock.Unsupported as error:
    print(error)
"""
    environment = clean_env(DLOCK_LIBRARY=str(library))
    done = subprocess.run([sys.executable, "-c", text, ROOT / "bindings/python"], env=environment, capture_output=True, text=True)
    assert done.stderr == "" and "build option etcd" in done.stdout
