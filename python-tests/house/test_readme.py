"""The README's programs run unchanged, the README stays short, and docs/options.md agrees with the library."""
from __future__ import annotations

import ctypes
import pathlib
import re

import pytest

from harness.build import LIBRARY, ROOT
from harness.options import options_page
from harness.programs import RUN, URL, Block, blocks, marks, run

README = ROOT / "README.md"
MEMORY = '"memory:"'
SHORTEST = [block for block in blocks(README) if block.language != "sh"]


def test_it_is_short() -> None:
    lines = README.read_text().splitlines()
    shown = [line for line in lines if not re.match(r"\[[a-z-]+\]: ", line)]  # not the targets of links
    assert len(shown) <= 160 and max(map(len, lines)) <= 200


@pytest.mark.timeout(300)  # Go compiles its standard library once
@pytest.mark.parametrize(
    "program",
    [pytest.param(one, id=one.language, marks=marks(one.language)) for one in SHORTEST],
)
def test_shortest_program(redis_server, tmp_path: pathlib.Path, program: Block) -> None:
    """The same in each language: it opens a client, acquires the lock, prints its token, and releases it. Without a server and on one."""
    assert program.body.count(MEMORY) == program.body.count('"sale"') == 1
    for server in (MEMORY, f'"{URL}"'):
        one = program._replace(body=program.body.replace(MEMORY, server))
        assert re.fullmatch(r"mine, with token \d+\n", run(one, redis_server.url, tmp_path))
    assert redis_server.command("KEYS", "*") == [b"redisson_lock_token:{sale}"]


def test_each_language_has_its_shortest_program() -> None:
    languages = [program.language for program in SHORTEST]
    assert len(languages) == len(set(languages)) and set(languages) == set(RUN)
    for program in SHORTEST:
        head, main = re.fullmatch(r"(.*?)((?:int main|func main|fn main|with|local client|const client)\b.*)", program.body, re.S).groups()
        assert len([line for line in main.splitlines() if re.search(r"\w", line)]) <= 12, program.language  # ten or so


def test_options_page_is_fresh() -> None:
    assert (ROOT / "docs/options.md").read_text() == options_page(ctypes.CDLL(str(LIBRARY)))
