"""What metrics cost, counted in instructions: a busy machine changes no count of what a pair does.

A pair is counted as the difference of two runs with different numbers of pairs, so that what a client does once is not in it. The
instructions for measurements are those of functions that are not inlined in a library for this, see MEASURED in mutants.py.
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
from typing import Sequence

import pytest

import mutants
from harness.build import BUILD, ROOT, native
from harness.server import Server

pytestmark = [pytest.mark.full, pytest.mark.house, pytest.mark.timeout(600)]


# A released lock stays, and its next owner gets it in memory.
IN_MEMORY = ("linger_ms=1000", "handover_ms=1000", "handover_turns=1024")


class Bench:
    def __init__(self, server: Server, folder: pathlib.Path) -> None:
        self.url = f"{server.unix_url}?busy_poll_us=0&command_timeout_ms=60000"  # polling is as many instructions as the server takes long
        self.folder = folder
        self.library = mutants.library(ROOT, BUILD, folder, mutants.MEASURED)

    def counted(self, pairs: int, threads: int, options: Sequence[str], *more: str) -> int:
        """Instructions of the whole process, without the kernel's."""
        assert shutil.which("valgrind"), "there is no valgrind: apt-get install valgrind"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.folder / 'callgrind'}", *more]
        command += [str(native("pairs")), self.url, str(pairs), str(threads), *options]
        env = {**os.environ, "LD_LIBRARY_PATH": str(self.library.parent)}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(re.search(r"Collected : (\d+)", done.stderr)[1])  # type: ignore[index]

    def of_a_pair(self, options: Sequence[str], *more: str, threads: int = 1) -> float:
        few, many = (self.counted(pairs, threads, options, *more) for pairs in (300 // threads, 1500 // threads))
        return (many - few) / (1500 // threads - 300 // threads) / threads


def test_they_are_two_percent_of_a_pair_at_most(redis_server: Server, tmp_path: pathlib.Path) -> None:
    """Of one that asks the server, of one in memory, and of a turn among 8 threads."""
    bench = Bench(redis_server, tmp_path)
    for what, options, threads in (("on the server", (), 1), ("in memory", IN_MEMORY, 1), ("among 8 threads", (), 8)):
        whole = bench.of_a_pair(options, threads=threads)
        spent = bench.of_a_pair(options, "--collect-atstart=no", "--toggle-collect=measured_*", threads=threads)
        print(f"{what}: {spent:.1f} of {whole:.0f} instructions are for measurements: {spent / whole:.2%}")
        assert 20 < spent <= 0.02 * whole
