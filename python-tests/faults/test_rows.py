"""The table of fault rows matches the tests."""
from __future__ import annotations

import re
import subprocess
import sys

import pytest

from harness.build import ROOT, clean_env
from harness.rows import ROWS, backing, page, rows_of

pytestmark = pytest.mark.house


def shown_rows(page_: str) -> dict[str, list[str]]:
    """Row -> its lines on the page."""
    found: dict[str, list[str]] = {}
    row = ""
    for line in page_.splitlines():
        if re.match(r"\| ([A-M]-\d\d)? \|", line):
            row = line[2:6] if line[2] != " " else row
            found.setdefault(row, []).append(line)
    return found


AGAIN = "docs/faults.md is old: python3 python-tests/harness/rows.py > docs/faults.md"


def test_the_page_names_what_there_is() -> None:
    """Tests that exist, and every row that has one. For rows of the network, of one server and of peers the lines match exactly."""
    there, real = shown_rows((ROOT / "docs/faults.md").read_text()), shown_rows(page())
    named = {test for lines in there.values() for line in lines for test in re.findall(r": (test_\w+) \|", line)}
    assert len(named) > 50 and named <= {test.name for test in backing()}, AGAIN
    assert there.keys() == real.keys(), AGAIN
    for row in real:
        assert row[0] not in "CDK" or there[row] == real[row], AGAIN


def test_rows_in_names_exist() -> None:
    for test in backing():
        assert test.rows <= ROWS.keys(), test.name


def test_rows_of_one_server_have_tests() -> None:
    """All rows of the network, of one server, and of credentials and hostile peers."""
    found = {row for test in backing() for row in test.rows}
    assert [row for row in ROWS if row[0] in "CDK" and row not in found] == []


def test_names_say_rows() -> None:
    assert rows_of("python-tests/test_x.py::test_c06_old[3-100]") == {"C-06"}
    assert rows_of("test_x.py::test_packets_are_lost[Namespace-C-01 both ways-1]") == {"C-01"}
    assert rows_of("test_x.py::test_e02_e04_wait") == {"E-02", "E-04"}
    assert rows_of("test_x.py::test_other[A-1]") == set()


def test_soak_lists_what_it_would_run() -> None:
    """Of each test the full form, and then the form for hours."""
    command = [sys.executable, str(ROOT / "python-tests/soak.py"), "--list", "--rows", "C-06,D-01,C-13,C-01"]
    lines = subprocess.run(command, env=clean_env(), capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split(maxsplit=1)[1] for line in lines]
    assert {line.split()[0] for line in lines} == {"C-06", "D-01", "C-13", "C-01"}
    for name, parameter in (("test_d01_script_flush", "50000"), ("test_c06_old_requests_after_the_grant_of_another", "15-2000")):
        assert re.findall(rf"::{name}\[(.*)\]", "\n".join(names)) == [parameter]
    assert re.findall(r"::test_c13_a_long_outage\[(.*)\]", "\n".join(names)) == ["5", "600"]
