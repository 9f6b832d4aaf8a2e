"""The demo with fewer buyers: it sells the whole stock, its faults happen, and its checks can fail."""
from __future__ import annotations

import os
import pathlib
import pty
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

import pytest

from harness.build import BUILD, ROOT
from harness.server import Server

PROGRAM = ROOT / "bench/demo/flash_sale.py"
BUYERS = 200


class Demo(NamedTuple):
    code: int
    output: str
    svg: pathlib.Path

    @property
    def table(self) -> dict[str, str]:
        """The rows of the table: name, at least two spaces, value."""
        return dict(re.findall(r"^  (\w[\w -]*?)  +(\S.*?)\r?$", self.output, re.M))

    def number(self, name: str) -> float:
        return float(self.table[name].split()[0].rstrip(","))

    @property
    def failed(self) -> set[str]:
        return set(re.findall(r"^FAILED: (.*?)\r?$", self.output, re.M))


def command(svg: pathlib.Path, *more: str) -> list[str]:
    return [sys.executable, str(PROGRAM), "--build", str(BUILD), "--buyers", str(BUYERS), "--svg", str(svg), *more]


def run(folder: pathlib.Path, *more: str) -> Demo:
    svg = folder / "a sale.svg"
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command(svg, *more), cwd=folder, stdout=pipe, stderr=both, text=True, timeout=55)
    return Demo(done.returncode, done.stdout, svg)


@pytest.mark.full
@pytest.mark.parametrize("engine", ["etcd", "zookeeper"])
def test_on_a_cluster(tmp_path: pathlib.Path, engine: str) -> None:
    """The lock is on three servers, whose leader is killed on the way."""
    demo = run(tmp_path, "--engine", engine)
    assert demo.code == 0 and "SIGKILL of the leader" in demo.output, demo.output


def run_in_terminal(folder: pathlib.Path, *more: str) -> Demo:
    """The same, on a terminal."""
    svg, output = folder / "sale.svg", b""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command(svg, *more), cwd=folder, stdout=theirs) as process:
        os.close(theirs)
        try:
            while data := os.read(ours, 65536):
                output += data
        except OSError:  # a terminal whose program has ended reads as an error
            pass
        os.close(ours)
    return Demo(process.returncode, output.decode(), svg)


@pytest.mark.parametrize("seed", [1, 2])  # C killed and Python paused, or the other way round: as a rule
def test_the_flash_sale(tmp_path: pathlib.Path, seed: int) -> None:
    demo = run(tmp_path, "--seed", str(seed))
    assert (demo.code, demo.failed) == (0, set()), demo.output
    assert re.search(r"(C|Python) \d: SIGKILL, with the lock", demo.output)
    assert re.search(r"(C|Python) \d: SIGSTOP, with the lock", demo.output)
    assert re.search(r"SIGCONT, it goes on(.*\n)+.*the write with the old token is refused", demo.output)
    assert re.search(r"the library says LOST", demo.output)
    assert demo.table["sold"] == "20 of 20"
    assert demo.table["told sold out"] == f"{BUYERS - 21} of {BUYERS} buyers"  # one was killed
    assert demo.number("stale tokens refused") >= 1
    assert demo.number("lost locks reported") >= 1
    assert demo.number("grants of the lock") == BUYERS + demo.number("stale tokens refused")
    assert demo.number("in-memory hand-overs") >= 1
    assert demo.number("grants across processes") >= 20
    assert demo.number("renewals") >= 2
    assert demo.number("longest wait") <= demo.number("elapsed")
    assert 0.8 <= demo.number("free after SIGKILL") <= 3


def test_the_stock_knows_who_has_read_it(redis_server: Server) -> None:
    """A write of the old holder after the new one's read is refused; without that, the new holder sells the same item again."""
    with redis_server.client() as stock:
        script = stock.command("SCRIPT", "LOAD", (PROGRAM.parent / "sell.lua").read_text())
        stock.command("HSET", "items", "left", 20, "fence", 0, "refused", 0, "guarded", 1)
        assert [stock.command("EVALSHA", script, 2, "items", "sold", token) for token in (7, 8)] == [20, 20]
        assert stock.command("EVALSHA", script, 2, "items", "sold", 7, 19, 700) == -1
        assert stock.command("EVALSHA", script, 2, "items", "sold", 8, 19, 800) == 19
        assert stock.command("EVALSHA", script, 2, "items", "sold", 7) == -1
        assert stock.command("LRANGE", "sold", 0, -1) == [b"800"] and stock.command("HGET", "items", "refused") == b"2"


def test_a_fair_lock(tmp_path: pathlib.Path) -> None:
    demo = run(tmp_path, "--variant", "fair", "--buyers", "120", "--threads", "10")
    assert (demo.code, demo.failed) == (0, set()), demo.output
    assert re.search(r"SIGKILL, with the lock(.*\n)+.*SIGSTOP, with the lock", demo.output)
    assert "ok      nobody was served before who had asked long before" in demo.output
    assert demo.table["sold"] == "20 of 20" and demo.table["told sold out"] == "99 of 120 buyers"
    assert demo.number("stale tokens refused") >= 1


def test_the_gate_ends_every_wait(tmp_path: pathlib.Path) -> None:
    demo = run(tmp_path, "--variant", "gate")
    assert (demo.code, demo.failed) == (0, set()), demo.output
    assert re.search(r"sold the last item and closed the gate", demo.output)
    assert demo.table["sold"] == "20 of 20" and demo.table["told sold out"] == f"0 of {BUYERS} buyers"
    away, waiting = re.match(rf"(\d+) of {BUYERS} buyers, (\d+) of them", demo.table["told the sale is over"]).groups()
    assert int(away) == BUYERS - 21 and int(waiting) > BUYERS / 2  # one was killed
    assert 20 <= demo.number("grants of the lock") <= 25
    words = [element.text for element in ElementTree.parse(demo.svg).iter("{http://www.w3.org/2000/svg}text")]
    assert f"gate closed: {away} told that the sale is over" in words


@pytest.mark.parametrize("seed", [1, 2])  # C killed, Python killed: as a rule
def test_without_a_lock(tmp_path: pathlib.Path, seed: int) -> None:
    demo = run(tmp_path, "--variant", "optimistic", "--seed", str(seed))
    assert (demo.code, demo.failed) == (0, set()), demo.output
    assert re.search(r"(C|Python) \d: SIGKILL, in a transaction", demo.output)
    assert demo.table["sold"] == "20 of 20" and demo.table["told sold out"] == f"{BUYERS - 21} of {BUYERS} buyers"
    assert demo.number("conflicts") >= 1 and "grants of the lock" not in demo.table
    ElementTree.parse(demo.svg)


def test_the_svg(tmp_path: pathlib.Path) -> None:
    demo = run(tmp_path, "--quiet", "--processes", "6", "--picture", str(tmp_path / "page"))
    assert f"timeline: {demo.svg}" in demo.output
    picture = ElementTree.parse(demo.svg).getroot()
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("Python 3") == 2 and "SIGSTOP" in words and "SIGCONT: LOST, stale write refused" in words
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}title"))) > BUYERS
    light, dark = ((tmp_path / name).read_text() for name in ("page.svg", "page-dark.svg"))
    for plain in (light, dark):  # the README's images: the same text, in a tenth of the bytes
        drawn = [element.text for element in ElementTree.fromstring(plain).iter("{http://www.w3.org/2000/svg}text")]
        assert drawn == words and "<title" not in plain
    assert light != dark


def test_without_the_fence_it_fails_and_says_so(tmp_path: pathlib.Path) -> None:
    demo = run_in_terminal(tmp_path, "--no-fence")
    assert demo.code == 1
    assert {"the stale write was refused", "no write came after one with a higher token"} <= demo.failed
    assert any(name.startswith("sold exactly 20") for name in demo.failed)
    assert demo.number("sold") > 20 and demo.number("stale tokens refused") == 0
    assert re.search(r"SIGSTOP, with the lock", demo.output) and "old token is ACCEPTED" in demo.output
    assert "the first look at the state said LOST" not in demo.failed  # that is the library's part, and works in this case too
    assert demo.output.count("\r\x1b[K") > 10  # one line that changes


def test_bad_arguments(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path, "--items", "5").code == 2
    assert run(tmp_path, "--processes", "2").code == 2
    assert run(tmp_path, "--variant", "poll").code == 2
    assert run(tmp_path, "--variant", "optimistic", "--no-fence").code == 2
    assert run(tmp_path, "--build", str(tmp_path)).code == 2
