"""dlock_client_metrics: the text is what Prometheus reads, its numbers agree with what happened, and reading it stops nobody."""
from __future__ import annotations

import ctypes
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import dlock
import dlock.metrics
from dlock import _abi
from harness.build import ROOT
from harness.server import Server, free_port

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str) -> Samples:
    """By name and labels."""
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in families for sample in family.samples}


def one(text: str, name: str, **labels: str) -> float:
    return read(text)[name, tuple(sorted(labels.items()))]


@pytest.fixture
def client(redis_server: Server) -> Iterator[dlock.Client]:
    with dlock.Client(redis_server.unix_url) as client:
        yield client
        client.close(timeout=120)  # a busy machine has 100,000 locks to release


# ---- the text


def test_every_counter_and_every_histogram(client: dlock.Client) -> None:
    text = client.metrics()
    types = {family.name: family.type for family in text_string_to_metric_families(text)}
    stats = client.stats()
    gauges = {"held", "waiting", "locks"}
    assert {name: kind for name, kind in types.items() if kind in ("counter", "gauge")} == {
        "dlock_client_info": "gauge", **{f"dlock_{name}": "gauge" if name in gauges else "counter" for name in stats}}
    assert {name for name, kind in types.items() if kind == "histogram"} == {
        "dlock_wait_seconds", "dlock_hold_seconds", "dlock_renewal_delay_seconds", "dlock_renewal_left_seconds", "dlock_grant_handovers"}
    assert one(text, "dlock_client_info", version=dlock.__version__, server=client._url.partition("://")[2]) == 1
    assert text.endswith("# EOF\n") and all(family.documentation for family in text_string_to_metric_families(text))


@pytest.mark.parametrize("size", [0, 1, 100, 5000])
def test_a_buffer_that_is_too_small(client: dlock.Client, size: int) -> None:
    """It gets the beginning, with a terminator, and the call says how much there is."""
    lib, needed, buffer = client._lib, ctypes.c_size_t(), ctypes.create_string_buffer(b"x" * size, size + 1)
    whole = client.metrics()
    error = lib.attempt(lib.dlock_client_metrics, client._live(), buffer, size, needed)
    assert error.code == _abi.DLOCK_BUFFER_TOO_SMALL and str(needed.value) not in ("", "0")
    assert needed.value == len(whole) and buffer.value == whole[: max(size - 1, 0)].encode()
    exact = ctypes.create_string_buffer(needed.value + 1)
    assert not lib.attempt(lib.dlock_client_metrics, client._live(), exact, len(exact), needed)
    assert exact.value.decode() == whole


def test_no_buffer_and_no_client(client: dlock.Client) -> None:
    lib, needed = client._lib, ctypes.c_size_t()
    for handle, size in ((client._live(), 1), (None, 0)):
        assert lib.attempt(lib.dlock_client_metrics, handle, None, size, needed).code == _abi.DLOCK_INVALID_ARGUMENT


# ---- what is measured


def test_waits_and_holds(client: dlock.Client, redis_server: Server) -> None:
    with dlock.Client(redis_server.unix_url) as other:
        theirs = other.lock("a")
        mine = client.lock("a")
        assert theirs.acquire()
        assert not mine.try_acquire() and not mine.acquire(timeout=0.03)
        assert one(client.metrics(), "dlock_wait_seconds_count", outcome="ended") == 2
        assert one(client.metrics(), "dlock_wait_seconds_bucket", outcome="ended", le="0.02") <= 1
        theirs.release()
    with mine:
        assert one(client.metrics(), "dlock_held") == 1
        with mine:
            pass
    text = client.metrics()
    assert one(text, "dlock_wait_seconds_count", outcome="granted") == one(text, "dlock_hold_seconds_count") == 1
    assert one(text, "dlock_held") == one(text, "dlock_waiting") == 0


def test_sums_and_buckets_agree(client: dlock.Client) -> None:
    lock = client.lock("a")
    for _ in range(200):
        with lock:
            pass
    samples = read(client.metrics())
    for name, labels in (("hold_seconds", ()), ("wait_seconds", (("outcome", "granted"),))):
        buckets = sorted((float(dict(key[1])["le"]), value) for key, value in samples.items()
                         if key[0] == f"dlock_{name}_bucket" and set(labels) <= set(key[1]))
        counts = [count for _, count in buckets]
        assert counts == sorted(counts) and counts[-1] == samples[f"dlock_{name}_count", labels] == 200
        each = [now - before for now, before in zip(counts, [0, *counts])]
        bounds = [bound for bound, _ in buckets]
        least = sum(count * low for count, low in zip(each, [0, *bounds]))
        assert each[-1] == 0 and least <= samples[f"dlock_{name}_sum", labels] <= sum(count * high for count, high in zip(each, bounds) if count)


def test_handovers_of_a_grant(client: dlock.Client) -> None:
    """Ten threads want it while it is held: most get it from the one before, without the server."""
    lock = client.lock("a", lease_ms=60_000, handover_ms=1000)
    lock.acquire()

    def use() -> None:
        with lock:
            pass

    threads = [threading.Thread(target=use) for _ in range(10)]
    for thread in threads:
        thread.start()
    while client.stats()["waiting"] < 10:
        time.sleep(0.001)
    assert one(client.metrics(), "dlock_waiting") == 10
    lock.release()
    for thread in threads:
        thread.join()
    text = client.metrics()
    handed = one(text, "dlock_handovers_total")
    assert handed > 0 and one(text, "dlock_grant_handovers_sum") == handed
    assert one(text, "dlock_grant_handovers_count") == one(text, "dlock_grant_handovers_bucket", le="10.0") == 11 - handed
    assert one(text, "dlock_grant_handovers_bucket", le="0.0") < 11 - handed


def test_renewals(redis_server: Server) -> None:
    """Each was sent after it was due, and at least half of the lease was left where none was late."""
    with dlock.Client(redis_server.unix_url, lease_ms=3000) as client, client.lock("a"):
        while client.stats()["renewed"] < 2:
            time.sleep(0.01)
        text = client.metrics()
        assert one(text, "dlock_renewal_delay_seconds_count") >= one(text, "dlock_renewal_left_seconds_count") >= 2
        if one(text, "dlock_renewals_late_total") == 0:
            assert one(text, "dlock_renewal_left_seconds_bucket", le="0.5") == 0
        assert one(text, "dlock_renewal_left_seconds_bucket", le="5.0") == one(text, "dlock_renewal_left_seconds_count")


def test_a_lost_lock_was_held(client: dlock.Client, redis_server: Server) -> None:
    lock = client.lock("a", lease_ms=600)
    lock.acquire()
    redis_server.command("FLUSHALL")
    while client.stats()["lost"] == 0:
        time.sleep(0.01)
    text = client.metrics()
    assert one(text, "dlock_held") == 0 and one(text, "dlock_hold_seconds_count") == 1
    with pytest.raises(dlock.Lost):
        lock.release()
    assert one(client.metrics(), "dlock_hold_seconds_count") == 1


KINDS: dict[str, Any] = {
    "mutex": lambda client: client.lock("a"), "lingering": lambda client: client.lock("a", linger_ms=200),
    "fair": lambda client: client.fair_lock("a"), "read": lambda client: client.read_lock("a"),
    "write": lambda client: client.write_lock("a"), "multi": lambda client: client.multi_lock(client.lock("b"), client.lock("c")),
    "permit": lambda client: client.permit_semaphore("s"), "semaphore": lambda client: client.semaphore("t"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left(client: dlock.Client, kind: str) -> None:
    """After threads have acquired, timed out and released: what began has ended, whatever way it took."""
    lock = KINDS[kind](client)
    if "s" in (kind[0], kind[-1]) or kind == "permit":
        lock.set_permits(1)

    def use() -> None:
        for turn in range(30):
            if lock.acquire(timeout=0.002 if turn % 3 == 0 else 20) if turn % 3 else lock.try_acquire():
                lock.release()

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = client.stats()
    assert stats["acquired"] > 100 and stats["held"] == stats["waiting"] == 0


def test_an_exported_grant_is_not_held(client: dlock.Client, redis_server: Server) -> None:
    with dlock.Client(redis_server.unix_url) as heir:
        giver, taker = client.lock("a"), heir.lock("a")
        giver.acquire()
        taker.adopt_grant(giver.export_grant())
        assert (one(client.metrics(), "dlock_held"), one(heir.metrics(), "dlock_held")) == (0, 1)
        taker.release()
        assert one(heir.metrics(), "dlock_held") == 0 and one(heir.metrics(), "dlock_hold_seconds_count") == 1


# ---- what it costs


@pytest.mark.house  # a sanitizer takes its own time
@pytest.mark.parametrize("many", [5000, pytest.param(100_000, marks=[pytest.mark.full, pytest.mark.timeout(600)])])
def test_a_scrape_takes_no_longer_with_many_locks(client: dlock.Client, many: int) -> None:
    """It looks at no lock, so it keeps nobody from one."""

    def fastest() -> float:
        lib, buffer, size, spent = client._lib, ctypes.create_string_buffer(32768), ctypes.c_size_t(), []
        for _ in range(50):
            began = time.perf_counter()
            lib.call(lib.dlock_client_metrics, client._live(), buffer, 32768, size)
            spent.append(time.perf_counter() - began)
        return min(spent)

    before = fastest()
    locks = [client.lock(f"many:{number}") for number in range(many)]
    assert all(lock.try_acquire() for lock in locks)
    after = fastest()
    print(f"{before * 1e6:.0f} us with no lock held, {after * 1e6:.0f} us with {many}")
    assert one(client.metrics(), "dlock_held") == many
    assert after < 3 * before


# ---- bindings


def test_the_collector(client: dlock.Client, redis_server: Server) -> None:
    registry = CollectorRegistry()
    registry.register(dlock.metrics.Collector(client))
    with client.lock("a"):
        assert registry.get_sample_value("dlock_held") == 1
    assert registry.get_sample_value("dlock_hold_seconds_count") == 1
    assert registry.get_sample_value("dlock_client_info", {"version": dlock.__version__, "server": client._url.partition("://")[2]}) == 1
    assert read(generate_latest(registry).decode()) == read(client.metrics())


def test_the_collector_of_several_clients(client: dlock.Client, redis_server: Server) -> None:
    registry = CollectorRegistry()
    with dlock.Client(redis_server.url) as other:
        registry.register(dlock.metrics.Collector(orders=client, jobs=other))
        with client.lock("a"):
            assert registry.get_sample_value("dlock_held", {"client": "orders"}) == 1
            assert registry.get_sample_value("dlock_held", {"client": "jobs"}) == 0
        assert read(generate_latest(registry).decode())
    assert registry.get_sample_value("dlock_held", {"client": "orders"}) == 0


# ---- Prometheus itself, and the dashboard


class Prometheus:
    """A Prometheus that scrapes the text of a client once a second."""

    def __init__(self, folder: pathlib.Path, client: dlock.Client) -> None:
        assert shutil.which("prometheus"), "there is no Prometheus: apt-get install prometheus"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
                self.end_headers()
                self.wfile.write(client.metrics().encode())

            def log_message(self, *words: object) -> None:
                pass

        self.source = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.source.serve_forever, daemon=True).start()
        self.port = free_port()
        config = {"global": {"scrape_interval": "1s"},
                  "scrape_configs": [{"job_name": "dlock", "static_configs": [{"targets": [f"127.0.0.1:{self.source.server_port}"]}]}]}
        (folder / "prometheus.yml").write_text(json.dumps(config))
        command = ["setpriv", "--pdeathsig", "KILL", "prometheus", f"--config.file={folder}/prometheus.yml",
                   f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self.port}"]
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def ask(self, path: str, **given: str) -> Any:
        query = urllib.parse.urlencode(given)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=30) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{given}: {error.read().decode()}") from None

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                if condition():
                    return
            except (OSError, AssertionError):
                pass
            assert time.monotonic() < end and self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.source.shutdown()
        self.source.server_close()


DASHBOARD = json.loads((ROOT / "tools/grafana/dlock.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.mark.house
@pytest.mark.timeout(180)
def test_the_dashboard_in_prometheus(redis_server: Server, tmp_path: pathlib.Path) -> None:
    """Prometheus reads the text without a complaint, knows its types, and has an answer to every expression of every panel."""
    with dlock.Client(redis_server.unix_url, lease_ms=600) as client, client.lock("held"):
        prometheus = Prometheus(tmp_path, client)
        try:
            scrapes = 'count_over_time(up{job="dlock"}[1m])'
            prometheus.until(lambda: any(int(row["value"][1]) >= 4 for row in prometheus.ask("query", query=scrapes)["result"]))
            target = prometheus.ask("targets")["activeTargets"][0]
            assert (target["health"], target["lastError"]) == ("up", "")
            known = {name: rows[0]["type"] for name, rows in prometheus.ask("metadata").items()}
            assert {family.name: family.type for family in text_string_to_metric_families(client.metrics())}.items() <= known.items()
            for expression in EXPRESSIONS:
                query = expression.replace("$__rate_interval", "1m").replace("$job", "dlock")
                assert prometheus.ask("query", query=query)["result"], query
        finally:
            prometheus.stop()


def test_the_dashboard_names_what_there_is(client: dlock.Client) -> None:
    names = {sample.name for family in text_string_to_metric_families(client.metrics()) for sample in family.samples}
    variables = [item["query"]["query"] for item in DASHBOARD["templating"]["list"] if item["type"] == "query"]
    used = [set(re.findall(r"\bdlock_\w+", expression)) for expression in EXPRESSIONS + variables]
    assert all(used) and set().union(*used) <= names
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
