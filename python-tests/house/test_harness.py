"""The harness does what its docstrings say: server, RESP client, each fault of the proxy."""
from __future__ import annotations

import threading
import time
from typing import Callable

import pytest

from harness.proxy import Proxy
from harness.resp import Client, Closed, ReplyError
from harness.server import Server
from harness.steps.wire import wait_until

pytestmark = pytest.mark.house


@pytest.fixture
def proxy(redis_server: Server, new_proxy: Callable[..., Proxy]) -> Proxy:
    return new_proxy(redis_server)


def connect(proxy: Proxy, timeout: float = 5) -> Client:
    return Client(path=proxy.path, timeout=timeout) if proxy.path else Client(proxy.host, proxy.port, timeout=timeout)


def test_resp(redis_server: Server) -> None:
    with redis_server.client() as redis:
        assert redis.command("SET", "k", b"\r\n\0") == "OK"
        assert redis.command("GET", "k") == b"\r\n\0"
        assert redis.command("EVAL", "return {1, false, {'a', {}}}", 0) == [1, None, [b"a", []]]
        with pytest.raises(ReplyError, match="unknown command"):
            redis.command("NOPE")
        replies = redis.pipeline(["INCR", "n"], ["NOPE"], ["INCR", "n"])
        assert (replies[0], replies[2]) == (1, 2) and isinstance(replies[1], ReplyError)


def test_messages(redis_server: Server) -> None:
    with redis_server.client() as redis:
        redis.subscribe("a", "b")
        assert redis.message(timeout=0.05) is None
        redis_server.command("PUBLISH", "b", "text")
        assert redis.message() == (b"b", b"text")


def test_servers_of_ones_own(new_server: Callable[..., Server]) -> None:
    first, second = new_server("--maxmemory", "10mb"), new_server()
    assert first.command("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"10485760"]
    assert first.command("DEBUG", "SLEEP", "0") == "OK"
    assert first.port != second.port
    port = first.port
    first.restart()
    assert first.port == port and first.command("PING") == "PONG"
    second.pause()
    with pytest.raises(TimeoutError):
        second.client(timeout=0.05).command("PING")
    second.resume()
    assert second.command("PING") == "PONG"


@pytest.mark.parametrize("unix", [False, True])
def test_proxy_passes_and_counts(redis_server: Server, new_proxy: Callable[..., Proxy], unix: bool) -> None:
    proxy = new_proxy(redis_server, unix=unix)
    with connect(proxy) as redis:
        assert redis.command("ECHO", "x" * 200_000) == b"x" * 200_000
    assert proxy.connections == 1
    assert proxy.up.bytes > 200_000 and proxy.down.bytes > 200_000
    assert not proxy.up.fired and not proxy.down.fired


def test_delay(proxy: Proxy) -> None:
    proxy.down.delay = 0.1
    with connect(proxy) as redis:
        start = time.monotonic()
        redis.command("PING")
        assert time.monotonic() - start >= 0.1
    assert proxy.down.fired["delay"] == 1


def test_drip(proxy: Proxy) -> None:
    proxy.down.drip = (2, 0.01)
    with connect(proxy) as redis:
        assert redis.command("ECHO", "0123456789") == b"0123456789"
    assert proxy.down.fired["drip"] > 5


def test_hold(proxy: Proxy) -> None:
    proxy.down.hold()
    with connect(proxy, timeout=0.1) as redis:
        with pytest.raises(TimeoutError):
            redis.command("PING")
        proxy.down.release()
        assert redis.read() == "PONG"
    assert proxy.down.fired["hold"] == 1


def test_blackhole(proxy: Proxy) -> None:
    proxy.up.blackhole = True
    with connect(proxy, timeout=0.1) as redis:
        with pytest.raises(TimeoutError):
            redis.command("PING")
        wait_until(lambda: proxy.up.fired["blackhole"] == 1)
    assert proxy.down.bytes == 0


@pytest.mark.parametrize("reset, error", [(False, Closed), (True, ConnectionResetError)])
def test_cut(proxy: Proxy, reset: bool, error: type[Exception]) -> None:
    with connect(proxy) as redis:
        redis.command("PING")
        proxy.cut(reset)
        with pytest.raises(error):
            redis.read()


def test_half_close(redis_server: Server, proxy: Proxy) -> None:
    with connect(proxy) as redis:
        redis.command("PING")
        proxy.up.half_close()
        with pytest.raises(Closed):  # the server closes its side after ours
            redis.read()


def test_refuse_and_accept(proxy: Proxy) -> None:
    with connect(proxy) as redis:
        redis.command("PING")
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        assert redis.command("PING") == "PONG"
        proxy.accept()
        with connect(proxy) as other:
            assert other.command("PING") == "PONG"


def test_a_hook_counts_a_marker_in_pieces(proxy: Proxy) -> None:
    seen = proxy.up.on("MARKER")
    with connect(proxy) as redis:
        redis.socket.sendall(b"*2\r\n$4\r\nECHO\r\n$6\r\nMAR")
        time.sleep(0.05)
        redis.socket.sendall(b"KER\r\n")
        assert redis.read() == b"MARKER"
        redis.command("ECHO", "MARKER")
    seen.wait(count=2)
    assert seen.count == 2


def test_pause_at(redis_server: Server, proxy: Proxy) -> None:
    gate = proxy.up.pause_at("paused")
    with connect(proxy) as redis:
        redis.send("SET", "paused", 1)
        gate.wait()
        assert redis_server.command("EXISTS", "paused") == 0
        gate.open()
        assert redis.read() == "OK"


def test_cut_at_keeps_the_request_from_the_server(redis_server: Server, proxy: Proxy) -> None:
    proxy.up.cut_at("unseen")
    with connect(proxy) as redis:
        with pytest.raises((Closed, ConnectionResetError)):
            redis.command("SET", "unseen", 1)
    assert redis_server.command("EXISTS", "unseen") == 0
    assert proxy.up.fired["cut"] == 1
    with connect(proxy) as redis:
        assert redis.command("SET", "unseen", 1) == "OK"


def test_lose_reply(redis_server: Server, proxy: Proxy) -> None:
    proxy.lose_reply("lost")
    with connect(proxy) as redis:
        with pytest.raises((Closed, ConnectionResetError)):
            redis.command("SET", "lost", 1)
    assert redis_server.command("EXISTS", "lost") == 1
    assert proxy.down.fired["cut"] == 1


def test_close_ends_all_threads(redis_server: Server) -> None:
    before = threading.active_count()
    with Proxy(redis_server.path) as proxy:
        proxy.down.hold()
        with connect(proxy) as redis:
            redis.send("PING")
            time.sleep(0.05)
    assert threading.active_count() == before
