"""rediss://, etcds:// and zookeepers://: which names a certificate must have, and sentences that name the right cause."""
from __future__ import annotations

import os
import pathlib
import ssl
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Answer
from harness.server import Server
from harness.tls import Authority, Pair, Recorder, openssl, secure, secure_url

Make = Callable[..., Any]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("papers"))


def asked(agent: Agent, url: str, **options: Any) -> Answer:
    """The answer to a ping, and the client is gone."""
    client = agent.open(url, **options)
    answer = client.ping(5000)
    client.free().ok
    return answer


# ---- names in certificates


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_common_name_is_no_name(agent: Agent, authority: Authority, host: str) -> None:
    """Only alternative names count; the password stays here."""
    with Recorder(authority.issue(host, named=False)) as recorder:
        url = recorder.url.replace("127.0.0.1", host)
        answer = asked(agent, url, tls_ca_file=authority.file, password="s3cret")
        assert answer.status == "TLS_FAILED" and "without names (subjectAltName)" in answer.message and f"'{host}'" in answer.message, answer
        assert recorder.received == b""
        asked(agent, url, tls_ca_file=authority.file, tls_verify="off")
        assert recorder.received


def test_a_common_name_beside_other_names(agent: Agent, authority: Authority) -> None:
    """Names of another type do not bring the common name back."""
    pair = authority.issue("localhost", named=False)
    config = authority.folder / "extensions"
    config.write_text("subjectAltName = IP:127.0.0.2\n")
    request, shown = pair.cert.with_suffix(".csr"), pair.cert.with_suffix(".other")
    openssl("x509", "-req", "-in", request, "-CA", authority.file, "-CAkey", authority.folder / "ca.key", "-set_serial", 77, "-days", 9,
            "-extfile", config, "-out", shown)  # fmt: skip
    with Recorder(Pair(shown, pair.key)) as recorder:
        answer = asked(agent, recorder.url.replace("127.0.0.1", "localhost"), tls_ca_file=authority.file)
        assert answer.status == "TLS_FAILED" and "other names than 'localhost'" in answer.message, answer
        assert recorder.received == b""


@pytest.mark.parametrize("name", ["a*.locks.example", "*a.locks.example", "a*c.locks.example", "*.*.example", "a.*.example", "*"])
def test_an_asterisk_stands_for_a_whole_label(agent: Agent, authority: Authority, name: str) -> None:
    with Recorder(authority.issue(name)) as recorder:
        answer = asked(agent, recorder.url, tls_server_name="abc.locks.example", tls_ca_file=authority.file)
        assert answer.status == "TLS_FAILED" and "other names than" in answer.message, answer
        assert recorder.received == b"" and recorder.names == ["abc.locks.example"]


def test_a_certificate_that_is_not_for_servers(agent: Agent, authority: Authority) -> None:
    with Recorder(authority.issue("127.0.0.1", purpose="clientAuth")) as recorder:
        answer = asked(agent, recorder.url, tls_ca_file=authority.file)
        assert answer.status == "TLS_FAILED" and "not one for servers" in answer.message and recorder.received == b"", answer


def test_every_connection_proves_it_anew(agent: Agent, authority: Authority) -> None:
    """No session is continued, so none begins under one name and goes on under another."""
    with Recorder(authority.issue("localhost", "127.0.0.1")) as recorder:
        for host in ("localhost", "127.0.0.1", "localhost"):
            asked(agent, recorder.url.replace("127.0.0.1", host), tls_ca_file=authority.file)
        assert recorder.received and len(recorder.names) >= 3 and recorder.resumed == 0


# ---- names in options and URLs

REFUSED = [
    ".locks.example", ".", "..", "locks..example", "locks.example..", "*.locks.example", "*", "a locks.example", "locks.example\n", " ",
    "%", "%:x", "::1%eth0", "[::1]", "[::1]%eth0", "[::1]:6379", "locks.example:6379", ":", "::::", "1::2::3", "12345::", "127.0.0.1.",
    "127.1", "1", "127.0.0.256", "127.0.0.1.5", "-", "l\u00f6cks.example", "rediss://locks.example", "a/b", "a,b", "a" * 256,
]  # fmt: skip
TAKEN = ["locks.example", "locks.example.", "LOCKS.example", "xn--lcks-5qa.example", "a_b.example", "1a", "127.0.0.1", "::1", "::ffff:127.0.0.1", ""]


@pytest.mark.parametrize("scheme", ["rediss", "rediss+sentinel", "rediss+cluster", "rediss+quorum", "etcds", "zookeepers"])
def test_names_that_no_certificate_can_have(agent: Agent, scheme: str) -> None:
    """OpenSSL takes a dot in front for every subdomain, and an empty name for every server. They are refused before it sees them."""
    where = {"rediss+sentinel": "a:1/s", "rediss+quorum": "a:1,b:1,c:1"}.get(scheme, "a:1")
    for name in REFUSED:
        answer = agent.try_open(f"{scheme}://{where}", tls_server_name=name)
        assert answer.status == "INVALID_OPTION" and "tls_server_name" in answer.message, (name, answer)
        assert len(name) < 3 or name not in answer.message
    for name in TAKEN:
        client = agent.open(f"{scheme}://{where}", tls_server_name=name)
        client.free().ok
    answer = agent.try_open(f"{scheme}://{where}?tls_server_name=%25:x")
    assert answer.status == "INVALID_OPTION" and "tls_server_name" in answer.message and "memory" not in answer.message, answer


@pytest.mark.parametrize("host", [".locks.example", ".", "locks..example", "[::::]", "[1::2::3]", "[:]", "[1:2]", "[%25x]", "[:%25x]", "[::1]%25eth0"])
def test_hosts_that_are_none(agent: Agent, host: str) -> None:
    for url in (f"redis://{host}:1", f"rediss://{host}:1", f"etcds://{host}:1", f"zookeepers://{host}:1", f"rediss+cluster://{host}"):
        answer = agent.try_open(url)
        assert answer.status == "INVALID_URL" and "memory" not in answer.message, (url, answer)


def test_the_zone_of_an_address(agent: Agent) -> None:
    for host in ("[fe80::1%25eth0]", "[::1%25lo]", "[::ffff:127.0.0.1]", "localhost."):
        agent.open(f"rediss://{host}:1").free().ok


# ---- the right cause


def test_openssl_that_refuses_a_session(new_agent: Make, authority: Authority) -> None:
    """A failure of OpenSSL is a lack of memory only if OpenSSL says so."""
    agent = new_agent(shim=True)
    with Recorder(authority.issue("127.0.0.1")) as recorder:
        client = agent.open(recorder.url, tls_ca_file=authority.file)
        agent("shim", "session", 1, 1)
        answer = client.ping(5000)
        assert answer.fired > 0 and answer.status == "SYSTEM_ERROR", answer
        assert "OpenSSL refuses" in answer.message and "memory" not in answer.message, answer
        client.free().ok


def test_a_configuration_that_openssl_cannot_use(new_agent: Make, authority: Authority, tmp_path: pathlib.Path) -> None:
    """The system's policy leaves no way to speak: that is said, and not that there is no memory."""
    policy = tmp_path / "openssl.cnf"
    policy.write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMaxProtocol = TLSv1.1\nMinProtocol = TLSv1\n")
    agent = new_agent(OPENSSL_CONF=str(policy))
    with Recorder(authority.issue("127.0.0.1")) as recorder:
        answer = agent.try_open(recorder.url, tls_ca_file=authority.file)
        if answer.status == "OK":
            answer = asked(agent, recorder.url, tls_ca_file=authority.file)
        assert answer.status in ("SYSTEM_ERROR", "TLS_FAILED") and "memory" not in answer.message, answer
        assert recorder.received == b""


def test_files_that_openssl_does_not_take(agent: Agent, authority: Authority, tmp_path: pathlib.Path) -> None:
    """They are in PEM form, so the sentence says what else is wrong with them."""
    weak, broken, mine = tmp_path / "weak.pem", tmp_path / "broken.pem", authority.issue("me")
    openssl("req", "-x509", "-newkey", "rsa:512", "-nodes", "-subj", "/CN=weak", "-keyout", weak.with_suffix(".key"), "-out", weak)
    broken.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    for options, option, words in (
        ({"tls_cert_file": weak, "tls_key_file": weak.with_suffix(".key")}, "tls_cert_file", "key too small"),
        ({"tls_cert_file": broken, "tls_key_file": mine.key}, "tls_cert_file", "that OpenSSL takes"),
        ({"tls_ca_file": broken}, "tls_ca_file", "that OpenSSL takes"),
    ):
        answer = agent.try_open("rediss://localhost:1", **options)
        assert answer.status == "INVALID_OPTION" and option in answer.message and words in answer.message, answer
        assert str(tmp_path) not in answer.message


def test_a_server_that_wants_a_certificate_says_it_in_many_ways(agent: Agent, authority: Authority) -> None:
    """Many servers answer a missing certificate with the alert for a bad one."""
    with Recorder(authority.issue("127.0.0.1"), maximum_version=ssl.TLSVersion.TLSv1_2, verify_mode=ssl.CERT_REQUIRED) as recorder:
        recorder.context.load_verify_locations(authority.file)
        answer = asked(agent, recorder.url, tls_ca_file=authority.file)
        assert answer.status == "DENIED" and "wants a client certificate" in answer.message, answer


# ---- what makes TLS worth less

SETUPS = ["rediss://a:1", "rediss+sentinel://a:1/s", "rediss+cluster://a:1", "rediss+quorum://a:1,b:1,c:1", "etcds://a:1", "zookeepers://a:1"]


@pytest.mark.parametrize("url", SETUPS)
def test_what_is_logged(agent: Agent, authority: Authority, tmp_path: pathlib.Path, url: str) -> None:
    """A server that need not prove who it is, and a private key that every user may read."""
    mine = authority.issue("me")
    both = tmp_path / "both.pem"
    both.write_text(mine.cert.read_text() + mine.key.read_text())
    os.chmod(both, 0o640)
    os.chmod(mine.key, 0o644)

    def logged(count: int, **options: Any) -> list[str]:
        client = agent.open(url, **options)
        found = [client.event().text for _ in range(count)]
        client.free().ok
        return found

    assert "tls_verify is off" in logged(1, tls_verify="off")[0]
    (line,) = logged(1, tls_cert_file=mine.cert, tls_key_file=mine.key)
    assert "may read the private key" in line and str(tmp_path) not in line
    off, public = logged(2, tls_cert_file=mine.cert, tls_key_file=mine.key, tls_verify="off")
    assert "tls_verify" in off and "private key" in public
    os.chmod(both, 0o644)
    assert "may read the private key" in logged(1, tls_cert_file=both)[0]
    os.chmod(both, 0o640)
    assert "tls_verify" in logged(1, tls_cert_file=both, tls_verify="off")[0], "no line about the key comes before"


# ---- the protocol within TLS


@pytest.mark.parametrize("offered", [None, ["http/1.1"]], ids=["no protocol", "another protocol"])
def test_etcd_must_agree_on_its_protocol(agent: Agent, authority: Authority, offered: list[str] | None) -> None:
    """A server that speaks something else within TLS gets no request and no password."""
    with Recorder(authority.issue("127.0.0.1")) as recorder:
        if offered:
            recorder.context.set_alpn_protocols(offered)
        answer = asked(agent, recorder.url.replace("rediss", "etcds"), tls_ca_file=authority.file, username="u", password="s3cret")
        assert answer.status == "TLS_FAILED" and "'h2'" in answer.message and "etcds://" in answer.message, answer
        assert recorder.received == b""


@pytest.fixture
def redis(new_server: Make, authority: Authority) -> Iterator[Server]:
    yield secure(new_server, authority, authority.issue("localhost", "127.0.0.1", "::1"))


def test_a_last_dot(agent: Agent, authority: Authority, redis: Server) -> None:
    assert asked(agent, secure_url(redis, "localhost."), tls_ca_file=authority.file).status in ("OK", "UNREACHABLE")
    asked(agent, secure_url(redis), tls_ca_file=authority.file, tls_server_name="localhost.").ok
    asked(agent, secure_url(redis), tls_ca_file=authority.file, tls_server_name="::1").ok
