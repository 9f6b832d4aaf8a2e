"""rediss://: whom the library trusts, its errors when it does not, and that locks work over TLS as they do without."""
from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Answer, Client, Lock, until
from harness.build import LIBRARY, ROOT, build_library, clean_env
from harness.faults import cut_again_and_again
from harness.kinds import KINDS, one
from harness.proxy import Proxy
from harness.resp import encode
from harness.sentinel import SERVICE, Watched, ask
from harness.server import Server
from harness.tls import YEAR, Authority, Recorder, Pair, openssl, secure, secure_url, tls_only
from test_direct import LONG, opened, takes_answers

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock

pytestmark = pytest.mark.filterwarnings("ignore:.*TLSv1_1 is deprecated")

SECRET = "s3cret-canary"
SERVER_HELLO = b"\x16\x03\x03"
Make = Callable[..., Any]


class Papers:
    """Certificates for several tests."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.authority, self.foreign = Authority(folder), Authority(folder, "foreign")
        self.server = self.authority.issue("localhost", "127.0.0.1", "::1", "*.locks.example")
        self.client = self.authority.issue("a client")


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def _tls_server(papers: Papers) -> Iterator[Server]:
    servers: list[Server] = []

    def make(*options: str) -> Server:
        servers.append(Server(*options))
        return servers[-1]

    yield secure(make, papers.authority, papers.server)
    for server in servers:
        server.stop()


@pytest.fixture
def server(_tls_server: Server) -> Server:
    _tls_server.command("FLUSHALL")
    return _tls_server


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy((server.host, server.tls_port)) as made:  # type: ignore[attr-defined]
        yield made


def behind(proxy: Any) -> str:
    return f"rediss://127.0.0.1:{proxy.port}"


def trusting(papers: Papers, **more: Any) -> dict[str, Any]:
    return {"tls_ca_file": papers.authority.file, **more}


def attempt(agent: Agent, url: str, **options: Any) -> Answer:
    """Of the first acquire."""
    client = agent.open(url, **options)
    answer = client.lock("the lock").acquire(1, 0)
    client.close(5000).ok
    client.free().ok
    return answer


def refused(answer: Answer, status: str, *words: str) -> None:
    """The error names the lock, the server and the remedy."""
    assert answer.status == status, answer
    assert answer.message.startswith("lock 'the lock' at "), answer
    for word in words:
        assert word in answer.message, answer
    assert SECRET not in answer.message and "PRIVATE" not in answer.message


# ---- trust


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "LocalHost"])
def test_a_trusted_server(agent: Agent, server: Server, papers: Papers, host: str) -> None:
    assert attempt(agent, secure_url(server, host), **trusting(papers)).ok.token > 0


def test_the_port_is_one_for_tls(agent: Agent, server: Server, papers: Papers, proxy: Proxy) -> None:
    """The bytes on the wire are not Redis protocol, and the password is not in them."""
    seen = [way.on(word) for way in (proxy.up, proxy.down) for word in (b"CLIENT", b"SETNAME", b"EVALSHA", b"the lock", SECRET.encode())]
    hello = proxy.down.on(SERVER_HELLO)
    server.command("ACL", "SETUSER", "someone", "on", ">" + SECRET, "~*", "&*", "+@all")
    assert attempt(agent, behind(proxy), username="someone", password=SECRET, **trusting(papers)).ok.token > 0
    assert proxy.up.bytes > 500 and hello.count > 0 and [hook.count for hook in seen] == [0] * len(seen)


@pytest.mark.full  # where others need the core, it hardly ever does
def test_who_is_alone_takes_the_answer(new_agent: Make, server: Server, papers: Papers) -> None:
    agent = new_agent(shim=True)
    takes_answers(agent, *opened(agent, secure_url(server), busy_poll_us=LONG, **trusting(papers)))


def test_a_folder_of_authorities(agent: Agent, server: Server, papers: Papers, tmp_path: pathlib.Path) -> None:
    refused(attempt(agent, secure_url(server), tls_ca_dir=tmp_path), "TLS_FAILED", "authority", "tls_ca_file", "tls_ca_dir")
    shutil.copy(papers.authority.file, tmp_path / "ca.pem")
    openssl("rehash", tmp_path)
    assert attempt(agent, secure_url(server), tls_ca_dir=tmp_path).ok.token > 0


def test_k03_another_name(agent: Agent, papers: Papers) -> None:
    """A host name is sent (SNI) and must match; addresses are not sent."""
    with Recorder(papers.server) as recorder:
        url = recorder.url.replace("127.0.0.1", "{}")
        for host, name, told, good in (
            ("localhost", "", "localhost", True), ("127.0.0.1", "", None, True), ("localhost", "localhost.", "localhost", True),
            ("127.0.0.1", "a.locks.example", "a.locks.example", True), ("localhost", "127.0.0.1", None, True),
            ("localhost", "::1", None, True), ("localhost", "a.b.locks.example", "a.b.locks.example", False),
            ("localhost", "locks.example", "locks.example", False), ("127.0.0.1", "127.0.0.2", None, False),
            ("127.0.0.1", "::2", None, False), ("localhost", "localhos", "localhos", False),
        ):  # fmt: skip
            client = agent.open(url.format(host), tls_server_name=name, **trusting(papers))
            heard = len(recorder.received)
            answer = client.ping(5000)
            assert recorder.names.pop() == told and not recorder.names
            if good:
                assert answer.status == "OK" and b"SETNAME" in recorder.received[heard:]
            else:
                assert answer.status == "TLS_FAILED" and f"'{name}'" in answer.message and "tls_server_name" in answer.message, answer
                assert len(recorder.received) == heard
            client.free().ok


UNTRUSTED: dict[str, tuple[Callable[[Papers], Pair], str]] = {
    "expired": (lambda papers: papers.authority.issue("localhost", end=YEAR(2021)), "has expired"),
    "not valid yet": (lambda papers: papers.authority.issue("localhost", start=YEAR(2090)), "not valid yet"),
    "foreign authority": (lambda papers: papers.foreign.issue("localhost"), "tls_ca_file"),
    "another host": (lambda papers: papers.authority.issue("other.example"), "other names than 'localhost'"),
    "an address": (lambda papers: papers.authority.issue("127.0.0.2"), "other names than 'localhost'"),
    "the authority's own": (lambda papers: Pair(papers.foreign.file, papers.foreign.folder / "ca.key"), "self-signed"),
}


@pytest.mark.parametrize("why", UNTRUSTED)
def test_k03_an_untrusted_server(agent: Agent, papers: Papers, why: str) -> None:
    """The password goes to the right server only."""
    make, words = UNTRUSTED[why]
    with Recorder(make(papers)) as recorder:
        url = recorder.url.replace("127.0.0.1", "localhost")
        refused(attempt(agent, url, password=SECRET, **trusting(papers)), "TLS_FAILED", f"localhost:{recorder.port} has a", words)
        assert recorder.received == b"" and recorder.names
        client = agent.open(url, password=SECRET, tls_verify="off")
        assert "tls_verify is off" in client.event().text
        client.ping(5000)
        assert SECRET.encode() in recorder.received
        client.free().ok


def test_k03_a_revoked_certificate(agent: Agent, papers: Papers, tmp_path: pathlib.Path) -> None:
    """By a list. With a list that is too old, or of another authority, revocation is unknown: refused."""
    lists, pair = tmp_path / "crl.pem", papers.authority.issue("localhost")
    with Recorder(pair) as recorder:
        url = recorder.url.replace("127.0.0.1", "localhost")
        shutil.copy(papers.authority.revoked(), lists)
        agent.open(url, tls_crl_file=lists, **trusting(papers)).ping(5000)
        assert recorder.received
        papers.authority.revoke(pair)
        for revoked, words in (
            (papers.authority.revoked, "that was revoked"),
            (lambda: papers.authority.revoked("-crlsec", 1), "a newer list"),
            (papers.foreign.revoked, "has no list"),
        ):
            shutil.copy(revoked(), lists)
            heard = recorder.received
            said: list[str] = []
            with contextlib.suppress(AssertionError):
                until(lambda: said.append(attempt(agent, url, tls_crl_file=lists, **trusting(papers)).message) or words in said[-1])
            assert words in said[-1], said[-3:]
            refused(attempt(agent, url, password=SECRET, tls_crl_file=lists, **trusting(papers)), "TLS_FAILED", words, "tls_crl_file")
            assert recorder.received == heard


def test_a_list_of_revoked_certificates_that_changes(agent: Agent, papers: Papers, new_server: Make, tmp_path: pathlib.Path) -> None:
    lists, pair = tmp_path / "crl.pem", papers.authority.issue("localhost")
    server = secure(new_server, papers.authority, pair)
    shutil.copy(papers.authority.revoked(), lists)
    client = agent.open(secure_url(server), tls_crl_file=lists, connects_per_second=1000, **trusting(papers))
    client.ping(5000).ok
    papers.authority.revoke(pair)
    shutil.copy(papers.authority.revoked(), lists)
    client.ping(5000).ok  # the connection goes on
    server.command("CLIENT", "KILL", "TYPE", "normal")
    until(lambda: "that was revoked" in client.ping(5000).message)


def test_the_systems_authorities(new_agent: Make, server: Server, papers: Papers) -> None:
    refused(attempt(new_agent(), secure_url(server)), "TLS_FAILED", "authority")
    assert attempt(new_agent(SSL_CERT_FILE=str(papers.authority.file)), secure_url(server)).ok.token > 0


def test_k03_versions(agent: Agent, papers: Papers, new_server: Make) -> None:
    server = secure(new_server, papers.authority, papers.server, "--tls-protocols", "TLSv1.2")
    assert attempt(agent, secure_url(server), **trusting(papers)).ok.token > 0
    with Recorder(papers.server, maximum_version=ssl.TLSVersion.TLSv1_1, minimum_version=ssl.TLSVersion.MINIMUM_SUPPORTED) as recorder:
        recorder.context.set_ciphers("DEFAULT:@SECLEVEL=0")
        refused(attempt(agent, recorder.url, **trusting(papers)), "TLS_FAILED", "no version of TLS from 1.2 on")
        until(lambda: bool(recorder.failed))
        assert not recorder.received


# ---- client certificates


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_client_certificates(agent: Agent, papers: Papers, new_server: Make, tmp_path: pathlib.Path, protocol: str) -> None:
    server = secure(new_server, papers.authority, papers.server, "--tls-protocols", protocol, clients="yes")
    url, mine, theirs = secure_url(server), papers.client, papers.foreign.issue("a client")
    refused(attempt(agent, url, **trusting(papers)), "DENIED", "wants a client certificate", "tls_cert_file", "tls_key_file")
    refused(attempt(agent, url, tls_cert_file=theirs.cert, tls_key_file=theirs.key, **trusting(papers)), "DENIED", "tls_cert_file")
    assert attempt(agent, url, tls_cert_file=mine.cert, tls_key_file=mine.key, **trusting(papers)).ok.token > 0
    both = tmp_path / "both.pem"
    both.write_text(mine.cert.read_text() + mine.key.read_text())
    assert attempt(agent, url, tls_cert_file=both, **trusting(papers)).ok.token > 0


def test_a_certificate_that_is_renewed(agent: Agent, papers: Papers, new_server: Make, tmp_path: pathlib.Path) -> None:
    """New files apply to new connections of the same client; an unreadable file changes nothing."""
    server = secure(new_server, papers.authority, papers.server, clients="yes")
    pair = Pair(tmp_path / "cert", tmp_path / "key")
    shutil.copy(papers.client.cert, pair.cert), shutil.copy(papers.client.key, pair.key)
    client = agent.open(secure_url(server), tls_cert_file=pair.cert, tls_key_file=pair.key, **trusting(papers))
    lock = client.lock("the lock")

    def reconnect() -> Answer:
        server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        return lock.acquire(1, 0)

    lock.acquire(1, 0).ok
    lock.release(1).ok
    pair.key.unlink()
    reconnect().ok
    lock.release(1).ok
    other = papers.foreign.issue("a client")
    shutil.copy(other.cert, pair.cert), shutil.copy(other.key, pair.key)
    refused(reconnect(), "DENIED", "tls_cert_file")
    other = papers.authority.issue("a client")
    shutil.copy(other.cert, pair.cert), shutil.copy(other.key, pair.key)
    until(lambda: lock.acquire(1, 0).status == "OK")
    lock.release(1).ok


def test_files(agent: Agent, papers: Papers, server: Server, tmp_path: pathlib.Path) -> None:
    """All files are read when the client is opened; no message repeats a value."""
    url, mine, other = secure_url(server), papers.client, papers.authority.issue("x")
    garbage, pipe, locked = tmp_path / "garbage", tmp_path / "pipe", tmp_path / "locked"
    garbage.write_text("no PEM\n")
    os.mkfifo(pipe)
    openssl("ec", "-in", mine.key, "-aes128", "-passout", "pass:" + SECRET, "-out", locked)
    for options, words in (
        ({"tls_ca_file": tmp_path / "nowhere"}, ("tls_ca_file", "No such file")),
        ({"tls_ca_file": tmp_path}, ("tls_ca_file", "directory")),
        ({"tls_ca_file": garbage}, ("tls_ca_file", "no certificate")),
        ({"tls_ca_file": pipe}, ("tls_ca_file", "cannot be read")),
        ({"tls_ca_dir": garbage}, ("tls_ca_dir", "Not a directory")),
        ({"tls_ca_dir": tmp_path / "nowhere"}, ("tls_ca_dir", "No such file")),
        ({"tls_crl_file": tmp_path / "nowhere"}, ("tls_crl_file", "No such file")),
        ({"tls_crl_file": papers.authority.file}, ("tls_crl_file", "no list of revoked certificates")),
        ({"tls_cert_file": tmp_path / "nowhere"}, ("tls_cert_file", "No such file")),
        ({"tls_cert_file": garbage}, ("tls_cert_file", "no certificate")),
        ({"tls_cert_file": mine.cert}, ("tls_cert_file", "no private key")),
        ({"tls_cert_file": mine.cert, "tls_key_file": tmp_path / "nowhere"}, ("tls_key_file", "No such file")),
        ({"tls_cert_file": mine.cert, "tls_key_file": garbage}, ("tls_key_file", "no private key")),
        ({"tls_cert_file": mine.cert, "tls_key_file": other.key}, ("tls_key_file", "another certificate")),
        ({"tls_cert_file": mine.cert, "tls_key_file": locked}, ("tls_key_file", "tls_key_password is empty")),
        ({"tls_cert_file": mine.cert, "tls_key_file": locked, "tls_key_password": "wrong-" + SECRET}, ("tls_key_password", "decrypt")),
        ({"tls_key_file": mine.key}, ("tls_key_file", "tls_cert_file")),
        ({"tls_key_password": SECRET}, ("tls_key_password", "tls_cert_file")),
    ):  # fmt: skip
        answer = agent.try_open(url, **options)
        assert answer.status == "INVALID_OPTION", (options, answer)
        assert all(word in answer.message for word in words), (options, answer)
        assert SECRET not in answer.message and str(tmp_path) not in answer.message
    good = {"tls_cert_file": mine.cert, "tls_key_file": locked, "tls_key_password": SECRET}
    assert attempt(agent, url, **good, **trusting(papers)).ok.token > 0


@pytest.mark.parametrize("option", ["tls_ca_file=x", "tls_ca_dir=", "tls_cert_file=x", "tls_server_name=x", "tls_verify=on"])
def test_options_of_tls_without_tls(agent: Agent, option: str) -> None:
    """TLS options without TLS are refused: nobody must feel safe without it."""
    for url in ("redis://127.0.0.1:1?", "redis+unix:///nowhere?"):
        answer = agent.try_open(url + option)
        assert answer.status == "INVALID_OPTION" and option.partition("=")[0] in answer.message and "rediss://" in answer.message


# ---- the wrong scheme, and handshakes that fail


def test_k03_a_server_without_tls(agent: Agent, server: Server, papers: Papers) -> None:
    """Redis waits for the rest of a line: it takes the handshake for one."""
    answer = attempt(agent, f"rediss://127.0.0.1:{server.port}", connect_timeout_ms=300, **trusting(papers))
    refused(answer, "UNREACHABLE", "TLS handshake", "perhaps", "redis://")


def test_tls_behind_a_plain_url(agent: Agent, server: Server, papers: Papers) -> None:
    refused(attempt(agent, secure_url(server).replace("rediss", "redis")), "UNREACHABLE", "perhaps", "rediss://")
    with Recorder(papers.server) as recorder:
        answer = attempt(agent, recorder.url.replace("rediss", "redis"))
        assert answer.status in ("TLS_FAILED", "UNREACHABLE") and "rediss://" in answer.message
    for reply, status in ((b"\x15\x03\x01\x00\x02\x02\x46", "TLS_FAILED"), (b"", "UNREACHABLE")):
        with once(reply) as url:
            refused(attempt(agent, url), status, "rediss://")


class once:
    """A server that gives one answer to the first bytes, and closes; without an answer it only listens."""

    def __init__(self, reply: bytes | None, first: bytes = b"") -> None:
        self.reply, self.first = reply, first
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        links = []
        try:
            while True:
                links.append(self.listener.accept()[0])
                links[-1].sendall(self.first)
                if self.reply is not None:
                    links[-1].recv(65536)
                    links[-1].sendall(self.reply)
                    links.pop().close()
        except OSError:
            for link in links:
                link.close()

    def __enter__(self) -> str:
        return f"redis://127.0.0.1:{self.listener.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


RUBBISH = {
    "text": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "TLS_FAILED", "does not speak TLS"),
    "hangs up": (b"", "UNREACHABLE", "closed the connection during the TLS handshake"),
    "an alert": (b"\x15\x03\x03\x00\x02\x02\x28", "TLS_FAILED", "did not agree on TLS"),
    "half a record": (b"\x16\x03\x03\x40\x00\x02", "UNREACHABLE", "closed the connection during the TLS handshake"),
    "a huge record": (b"\x16\x03\x03\xff\xff" + b"\x02" * 70000, "TLS_FAILED", "did not agree on TLS"),
    "nonsense": (b"\x16\x03\x03\x00\x10" + b"\x02" * 16, "TLS_FAILED", "did not agree on TLS"),
    "an unknown name": (b"\x15\x03\x03\x00\x02\x02\x70", "TLS_FAILED", "tls_server_name"),
}


@pytest.mark.parametrize("what", RUBBISH)
def test_k03_handshakes_with_rubbish(agent: Agent, papers: Papers, what: str) -> None:
    reply, status, words = RUBBISH[what]
    with once(reply) as url:
        refused(attempt(agent, url.replace("redis", "rediss"), **trusting(papers)), status, words)


def test_k04_words_before_the_handshake(agent: Agent, papers: Papers) -> None:
    with once(b"", first=b"+OK\r\n+OK\r\n") as url:
        refused(attempt(agent, url.replace("redis", "rediss"), **trusting(papers)), "TLS_FAILED", "does not speak TLS")


@pytest.mark.parametrize("first", [b"", SERVER_HELLO, SERVER_HELLO + b"\x40"], ids=["silence", "a type", "half a head"])
def test_k03_a_handshake_that_hangs(agent: Agent, papers: Papers, first: bytes) -> None:
    with once(None, first) as url:
        answer = attempt(agent, url.replace("redis", "rediss"), connect_timeout_ms=300, **trusting(papers))
    refused(answer, "UNREACHABLE", "did not finish the TLS handshake in time" if first else "said nothing in the TLS handshake")
    assert 280_000 < answer.took < 10_000_000


@pytest.mark.parametrize("wait", ["blocking", "submitted"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_cut_in_the_handshake(agent: Agent, papers: Papers, proxy: Proxy, wait: str, reset: bool) -> None:
    hook = proxy.down.cut_at(SERVER_HELLO, reset=reset, times=3)
    lock = agent.open(behind(proxy), connects_per_second=1000, **trusting(papers)).lock("the lock")
    if wait == "blocking":
        assert lock.acquire(1, 20_000).ok.token > 0
    else:
        lock.submit_acquire(1, 20_000, 7).ok
        until(lambda: lock.state(1) == "HELD", 20)
    assert hook.count == proxy.down.fired["cut"] == 3
    lock.release(1).ok


# ---- locks over TLS


def test_byte_by_byte(agent: Agent, papers: Papers, proxy: Proxy) -> None:
    """Handshake and records, in both directions."""
    proxy.up.drip = proxy.down.drip = (1, 0)
    client = agent.open(behind(proxy), connect_timeout_ms=20_000, command_timeout_ms=20_000, **trusting(papers))
    lock = client.lock("the lock")
    for _ in range(3):
        lock.acquire(1, 0).ok
        lock.release(1).ok
    lock.submit_acquire(1, 20_000, 7).ok
    until(lambda: lock.state(1) == "HELD", 20)
    assert proxy.up.fired["drip"] > 1000 and proxy.down.fired["drip"] > 1000
    lock.release(1).ok


def test_many_calls_on_one_connection(agent: Agent, papers: Papers, server: Server) -> None:
    """Records that arrive together are all read."""
    client = agent.open(secure_url(server), private_connections=0, **trusting(papers))
    locks = [client.lock(f"lock{i}") for i in range(300)]
    agent.many([("submit_acquire", lock.index, 1, 20_000, i) for i, lock in enumerate(locks)])
    assert sorted(client.event().tag for _ in locks) == list(range(300))
    assert all(lock.state(1) == "HELD" for lock in locks)
    agent.many([("release", lock.index, 1) for lock in locks])
    assert not [key for key in server.command("KEYS", "lock*")]


def test_busy_polling(new_agent: Callable[..., Agent], papers: Papers, server: Server) -> None:
    """A caller that waits for a record polls before it sleeps, as without TLS."""
    agent = new_agent(shim=True)
    lock = agent.open(secure_url(server), busy_poll_us=10_000, **trusting(papers)).lock("the lock")
    lock.acquire(1, 0).ok

    def given_way() -> int:
        agent("shim", "yield", 0, 0)
        return lock.extend(1, 20_000).ok.counted

    until(lambda: given_way() > 0)


@pytest.mark.parametrize("size", [16384 - 9, 16384, 100_000, 1_000_000])
def test_long_answers(agent: Agent, papers: Papers, server: Server, size: int) -> None:
    """Longer than a record, and exactly as long."""
    server.command("SET", "long", b"x" * size)
    client = agent.open(secure_url(server), **trusting(papers))
    txn = client.txn()
    txn.watch("long").ok
    assert txn.get("long", 2 << 20).ok.value == "78" * size
    txn.set("copy", b"y" * 60_000, -1).ok
    txn.incr("n", 1).ok
    txn.commit().ok
    assert server.command("STRLEN", "copy") == 60_000
    txn.watch("n").ok
    server.command("INCR", "n")
    txn.incr("n", 1).ok
    assert txn.commit().status == "CONFLICT"
    txn.end_txn(), client.free().ok


def test_every_kind(agent: Agent, papers: Papers, server: Server) -> None:
    client = agent.open(secure_url(server), **trusting(papers))
    for kind in ("mutex", *KINDS):
        lock = one(client, kind, kind)
        assert lock.acquire(1, 0).ok.token > 0
        lock.release(1).ok
    latch = client.lock("latch", kind="latch")
    latch.latch_set(1).ok
    wait = latch.start("acquire", 1, -1, thread=1)
    until(lambda: latch.state(1) == "WAITING")
    latch.latch_down(1).ok
    wait.answer().ok
    multi = client.multi(client.lock("a"), client.lock("b"))
    multi.acquire(1, 0).ok
    multi.release(1).ok


def test_waiting_and_renewal(new_agent: Make, papers: Papers, server: Server) -> None:
    """Two processes with TLS and one without hand a lock on, woken by messages; it is renewed meanwhile."""
    url, options = secure_url(server), trusting(papers, lease_ms=1500, safety_ms=60_000)
    clients = [new_agent().open(url, **options), new_agent().open(url, **options), new_agent().open(server.url, lease_ms=1500, safety_ms=60_000)]
    locks = [client.lock("the lock") for client in clients]
    token = locks[0].acquire(1, 5000).ok.token
    renewed = clients[0].counters()["renewed"]
    until(lambda: clients[0].counters()["renewed"] > renewed + 2)
    assert locks[0].state(1) == "HELD" and locks[0].token(1).token == token
    for _ in range(10):
        for holder, waiter in zip(locks, locks[1:] + locks[:1]):
            wait = waiter.start("acquire", 1, -1, thread=1)
            until(lambda: waiter.state(1) == "WAITING")
            holder.release(1).ok
            assert wait.answer().ok.token > token
    assert sum(client.counters()["pushed_grants"] for client in clients) >= 20
    assert all(client.counters()["lost"] == 0 for client in clients)


def test_a_crowd(new_agent: Make, papers: Papers, server: Server) -> None:
    """Hand-over within the process and between processes."""
    clients = [new_agent().open(secure_url(server), **trusting(papers)) for _ in range(2)]
    locks = [client.lock("the lock") for client in clients]
    waits = [lock.start("turns", 100 * thread, 25, thread=thread) for lock in locks for thread in range(1, 5)]
    assert [wait.answer(60).ok.bad for wait in waits] == [0] * len(waits)
    assert sum(client.counters()["handovers"] for client in clients) > 0


@pytest.mark.timeout(180)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_cut_again_and_again(agent: Agent, papers: Papers, proxy: Proxy, reset: bool) -> None:
    """SIGPIPE has its default action in the agent. A closed connection is noticed before a call wastes its time on it."""
    client = agent.open(behind(proxy), lease_ms=5000, connects_per_second=1000, **trusting(papers))
    locks = [client.lock(f"lock{i}") for i in range(3)]
    statuses = cut_again_and_again(client, locks, lambda: proxy.cut(reset), connects=12, turns=20)
    assert statuses <= {"OK", "UNREACHABLE", "TIMED_OUT", "NOT_HELD", "LOST", "UNKNOWN_OUTCOME"}, statuses
    assert locks[0].acquire(1, 20_000).ok.token > 0


def test_an_idle_connection_that_was_closed(agent: Agent, papers: Papers, server: Server) -> None:
    lock = agent.open(secure_url(server), **trusting(papers)).lock("the lock")
    for _ in range(2):
        lock.acquire(1, 0).ok
        lock.release(1).ok
        server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


# ---- the process


@pytest.mark.no_tsan
def test_forks(agent: Agent, papers: Papers, proxy: Proxy) -> None:
    """A child sends nothing on its parent's connections, and has its own; an unused client works in the child too."""
    client, fresh = (agent.open(behind(proxy), lease_ms=60_000, **trusting(papers)) for _ in range(2))
    lock, txn = client.lock("the lock"), client.txn()
    lock.acquire(1, 0).ok
    txn.watch("x").ok
    before, connections = proxy.up.bytes, proxy.connections
    lines = [lock.line("release", 1), txn.line("rollback"), txn.line("end_txn"), lock.line("drop"), client.line("free")]
    for child in agent.fork(*lines, count=5):
        assert child.code == 0 and [answer.status for answer in child.answers][:2] == ["FORKED", "FORKED"]
    assert (proxy.up.bytes, proxy.connections) == (before, connections)
    (child,) = agent.fork(fresh.line("ping", 5000), fresh.line("close", 5000), fresh.line("free"))
    assert child.code == 0 and [answer.status for answer in child.answers] == ["OK"] * 3
    assert proxy.connections > connections
    txn.set("x", b"1", -1).ok
    txn.commit().ok
    assert lock.state(1) == "HELD"
    lock.release(1).ok


EXIT = """
import sys
{first}
sys.path.insert(0, {path!r})
import dlock
clients = [dlock.Client({url!r}, tls_ca_file={file!r}, lease_ms=500) for _ in range(3)]
locks = [client.lock(f"exit{{i}}") for i, client in enumerate(clients)]
for lock in locks:
    lock.acquire()
"""


@pytest.mark.parametrize("first", ["", "import ssl; ssl.create_default_context()"], ids=["alone", "OpenSSL was there"])
def test_the_end_of_a_process(papers: Papers, server: Server, first: str) -> None:
    """OpenSSL cleans up at exit when the program itself uses it, while our threads still run."""
    text = EXIT.format(first=first, path=str(ROOT / "bindings/python"), url=secure_url(server), file=str(papers.authority.file))
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=50)
        assert (done.returncode, done.stderr) == (0, "")
        server.command("FLUSHALL")


def test_exit_of_a_c_program(agent: Agent, papers: Papers, server: Server) -> None:
    lock = agent.open(secure_url(server), **trusting(papers)).lock("the lock")
    lock.acquire(1, 0).ok
    assert agent.exit(3) == 3


@pytest.mark.parametrize("on", [0, 1], ids=["once", "from then on"])
def test_no_memory(new_agent: Make, papers: Papers, server: Server, on: int) -> None:
    """Whichever allocation fails, the call fails and the next one works; a server with another name never gets in."""
    agent, url = new_agent(shim=True), secure_url(server)
    attempt(agent, url, **trusting(papers)).ok
    fired = 0
    for k in range(1, 1200, 23):
        wrong = agent.open(url, tls_server_name="wrong.example", **trusting(papers))
        right = agent.open(url, connects_per_second=1000, **trusting(papers))
        for client, may in ((wrong, set()), (right, {"OK"})):
            agent("shim", "alloc", k, on)
            answer = client.ping(5000)
            assert answer.status in may | {"OUT_OF_MEMORY", "SYSTEM_ERROR", "UNREACHABLE", "TLS_FAILED"}, answer
            fired += answer.fired > 0
        agent("shim", "alloc", k, on)
        answer = agent.try_open(url, **trusting(papers))
        assert answer.status in ("OK", "OUT_OF_MEMORY", "SYSTEM_ERROR", "INVALID_OPTION"), answer
        if answer.status == "OK":
            Client(agent, answer.index).free().ok
        until(lambda: right.ping(5000).status == "OK")
        wrong.free(), right.free()
    assert fired > 10


def test_from_python(papers: Papers, server: Server) -> None:
    assert ctypes.CDLL(str(LIBRARY)).dlock_supports(b"tls") == 1
    with dlock.Client(f"{secure_url(server)}?tls_ca_file={papers.authority.file}") as client, client.lock("the lock") as lock:
        assert lock.token > 0
        assert client.transaction(lambda transaction: transaction.set("x", b"1"), "x") is None
    with pytest.raises(dlock.TlsFailed, match="other names than 'wrong.example'"):
        with dlock.Client(secure_url(server), tls_ca_file=str(papers.authority.file), tls_server_name="wrong.example") as client:
            client.lock("the lock").acquire(timeout=0)
    with pytest.raises(dlock.InvalidOption, match="tls_ca_file"):
        dlock.Client(secure_url(server), tls_ca_file="/nowhere/at/all")


@pytest.mark.full
@pytest.mark.house
@pytest.mark.timeout(300)
def test_a_build_without_openssl(tmp_path: pathlib.Path) -> None:
    """It says so, needs nothing of OpenSSL, and does the rest."""
    library = build_library(tmp_path, "-Dtls=disabled", "-Dwerror=true")
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "hiredis" in needed and "libssl" not in needed and "libcrypto" not in needed
    text = """
import sys
sys.path.insert(0, sys.argv[1])
import ctypes, os, dlock
library = ctypes.CDLL(os.environ["DLOCK_LIBRARY"])
assert not library.dlock_supports(b"tls") and library.dlock_supports(b"mutex")
dlock.Client("redis://127.0.0.1:1").close()
try:
    dlock.Client("rediss://127.0.0.1:1")
except dlock.Unsupported as error:
    print(error)
"""
    environment = clean_env(DLOCK_LIBRARY=str(library))
    done = subprocess.run([sys.executable, "-c", text, ROOT / "bindings/python"], env=environment, capture_output=True, text=True)
    assert done.stderr == "" and "rediss://" in done.stdout and "OpenSSL" in done.stdout


# ---- sentinels


@pytest.fixture(scope="module")
def watched(papers: Papers) -> Iterator[Watched]:
    with Watched(sentinels=1, secured=tls_only(papers.authority, papers.server)) as up:
        yield up


def test_sentinels_and_the_servers_they_name(agent: Agent, papers: Papers, watched: Watched) -> None:
    """TLS to both: a lock, its renewal, a waiter and an ordered failover."""
    client = agent.open(watched.url, lease_ms=900, **trusting(papers))
    lock = client.lock("secured")
    token = lock.acquire(1, 0).ok.token
    until(lambda: client.counters()["renewed"] > 0 and ask(watched.replica(), "EXISTS", "secured"))
    wait = lock.start("acquire", 2, -1, thread=1)
    until(lambda: lock.state(2) == "WAITING")
    before = watched.port()
    watched.failover()
    assert watched.port() != before
    lock.release(1)
    assert wait.answer().ok.token > token
    lock.release(2).ok


def test_a_sentinel_must_prove_who_it_is(agent: Agent, papers: Papers, watched: Watched) -> None:
    answer = agent.open(watched.url, tls_ca_file=papers.foreign.file).ping(5000)
    assert answer.status == "TLS_FAILED" and f"127.0.0.1:{watched.sentinels[0].port}" in answer.message
    agent.open(watched.url, **trusting(papers, tls_verify="false")).ping(5000).ok
    answer = agent.open(watched.url.replace("rediss", "redis", 1)).ping(5000)
    assert answer.status in ("TLS_FAILED", "UNREACHABLE") and "rediss" in answer.message


def test_a_server_that_a_sentinel_names_must_prove_it_too(agent: Agent, papers: Papers, server: Server) -> None:
    """The sentinel is trusted, but the server that it names has a certificate of another authority, or no TLS."""
    foreign = papers.foreign.issue("127.0.0.1")
    with Watched(0, 1, secured=tls_only(papers.authority, papers.server)) as up, Recorder(foreign) as recorder:
        for place, status, words in ((recorder.port, "TLS_FAILED", "authority"), (server.port, "UNREACHABLE", "TLS handshake")):
            up.sentinels[0].command("SENTINEL", "REMOVE", SERVICE)
            up.sentinels[0].command("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", place, 1)
            answer = agent.open(up.url, password=SECRET, **trusting(papers)).ping(5000)
            assert answer.status == status and words in answer.message and SERVICE in answer.message
        assert recorder.received == b""
