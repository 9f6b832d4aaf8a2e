#!/usr/bin/env python3
"""No machine path and no package registry's host in any file; every text ends in one newline."""
from __future__ import annotations

import pathlib
import re

import tree

REFUSED = {
    "a path of one machine": re.compile(r"(?<![\w.$})\]*-])/(work|root|home|tmp)(?![\w-])"),
    "a package registry's host": re.compile(  # Cargo.lock calls its index by a name that has one
        r"\b(pypi\.org|pythonhosted\.org|proxy\.golang\.org|sum\.golang\.org|npmjs\.org|crates\.io(?!-index\b)|luarocks\.org"
        r"|deb\.debian\.org|archive\.ubuntu\.com|docker\.io|ghcr\.io|quay\.io)\b"
    ),
    "white space at the end of a line": re.compile(r"[ \t\r]+$"),
}


def problems(root: pathlib.Path) -> list[str]:
    found = []
    for path in tree.all_files(root):
        data = path.read_bytes()
        if b"\0" in data:
            continue
        name = path.relative_to(root)
        text = data.decode(errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            found += [f"{name}:{number}: {what}" for what, pattern in REFUSED.items() if pattern.search(line)]
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            found.append(f"{name}: must end in one newline")
    return found


if __name__ == "__main__":
    tree.main(problems)
