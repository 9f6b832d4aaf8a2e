#!/usr/bin/env python3
"""The pictures of docs/command.md: bench/terminal.py BUILD. Runs dlock top and dlock watch in tmux, and draws what the terminal shows.

Writes docs/pictures/dlock-top.svg and docs/pictures/dlock-watch.svg.
"""
from __future__ import annotations

import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from server import ROOT, Server  # noqa: E402

WIDTH, HEIGHT = 96, 16
CELL, LINE, EDGE = 8.4, 18, 14
HOLD = "echo ready; exec sleep 600"


def svg(title: str, lines: list[str]) -> str:
    """A terminal on a dark ground, which can be read on a light page and on a dark one."""
    width, height = WIDTH * CELL + 2 * EDGE, len(lines) * LINE + 2 * EDGE
    rows = [f'<text x="{EDGE}" y="{EDGE + 13 + number * LINE}" textLength="{len(line) * CELL:.1f}">{html.escape(line)}</text>'
            for number, line in enumerate(lines) if line]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" role="img">', f"<title>{html.escape(title)}</title>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#1d2430"/>',
        '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#dde3ee" xml:space="preserve" lengthAdjust="spacingAndGlyphs">', *rows, "</g>", "</svg>", "",
    ])  # fmt: skip


class Screen:
    """A command in a terminal of its own."""

    def __init__(self, folder: pathlib.Path, *command: str) -> None:
        self.socket = str(folder / "tmux")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), *command)
        self.tmux("set-option", "-g", "status", "off")

    def tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", "-S", self.socket, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def see(self, pattern: str) -> list[str]:
        end = time.monotonic() + 30
        while not re.search(pattern, shown := self.tmux("capture-pane", "-p"), re.S):
            if time.monotonic() > end:
                raise SystemExit(f"{pattern!r} was never shown:\n{shown}")
            time.sleep(0.05)
        return [line.rstrip() for line in shown.rstrip().splitlines()]

    def end(self) -> None:
        self.tmux("kill-server")


def main() -> None:
    dlock, server = str(pathlib.Path(sys.argv[1]).resolve() / "tools/dlock/dlock"), Server()
    os.environ["DLOCK_URL"] = server.urls["unix"]
    started: list[subprocess.Popen[str]] = []

    def hold(*words: str, waits: bool = False) -> subprocess.Popen[str]:
        started.append(subprocess.Popen([dlock, "run", *words, "--", "sh", "-c", HOLD], stdout=subprocess.PIPE, text=True))
        if not waits:
            assert started[-1].stdout and started[-1].stdout.readline() == "ready\n"
        return started[-1]

    drawn: dict[str, str] = {}
    try:
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            for words in (("billing:nightly",), ("--kind", "fair", "import"), ("--lease", "2m", "leader"), ("--kind", "read", "prices"), ("--kind", "permit", "--permits", "3", "workers")):
                hold(*words)
            for _ in range(2):
                hold("leader", waits=True)
            screen = Screen(folder, dlock, "top")
            drawn["dlock-top"] = svg("dlock top", screen.see(r"leader\s+\S+\s+\S+ s\s+\S+.*?\s2\s.*q quit"))
            screen.end()
            first = hold("deploy")
            screen = Screen(folder, dlock, "watch", "--every", "20ms", "deploy", "import")
            screen.see("deploy: held")
            second = hold("deploy", waits=True)
            first.terminate()
            screen.see("deploy: granted")
            third = hold("--lease", "1s", "deploy", waits=True)
            second.terminate()
            screen.see("granted.*granted")
            third.kill()
            drawn["dlock-watch"] = svg("dlock watch", screen.see("deploy: lost"))
            screen.end()
    finally:
        for process in started:
            process.kill()
            process.wait()
        server.stop()
    for name, picture in drawn.items():
        (ROOT / "docs/pictures" / f"{name}.svg").write_text(picture)


if __name__ == "__main__":
    main()
