#!/usr/bin/env python3
"""Ways of writing C that have hurt, and the way that is used instead: sizes of printed text."""
from __future__ import annotations

import pathlib
import re
from typing import Iterator

import tree

# What snprintf returns is no size of a text: base/text.h has sizes. Only the builder looks at it.
BUILDER = "src/base/text.c"
PRINT = re.compile(r"\bv?snprintf\s*\(")
UNBOUNDED = re.compile(r"\b(v?sprintf|strcpy|stpcpy|strcat|gets)\s*\(")
BEFORE_STATEMENT = re.compile(r"(?:^|[;{}:]|\belse|\bdo)\s*$")
CONTROL = re.compile(r"\b(?:if|while|for|switch)\s*$")


def code_of(path: pathlib.Path) -> str:
    """The text without comments, and with empty strings; lines stay where they are."""
    def blank(match: re.Match) -> str:
        if match[0].startswith("/"):
            return re.sub(r"[^\n]", " ", match[0])
        return match[0][0] + " " * (len(match[0]) - 2) + match[0][0]

    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, path.read_text(), flags=re.S)


def closing(code: str, at: int) -> int:
    """Behind the parenthesis that closes the one at this place."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    return len(code)


def opening(code: str, at: int) -> int:
    """Where the parenthesis that is closed at this place was opened."""
    depth = 0
    for i in range(at, -1, -1):
        depth += {")": 1, "(": -1}.get(code[i], 0)
        if depth == 0:
            return i
    return 0


def is_statement(code: str, begin: int, end: int) -> bool:
    """Whether a call is a statement of its own: nobody looks at its result."""
    before, behind = code[:begin].rstrip(), code[end:].lstrip()
    if not behind.startswith(";"):
        return False
    if before.endswith(")"):
        return bool(CONTROL.search(code[: opening(code, len(before) - 1)]))
    return bool(BEFORE_STATEMENT.search(before))


def print_problems(place: str, code: str) -> Iterator[str]:
    for match in UNBOUNDED.finditer(code):
        yield f"{place}:{code.count(chr(10), 0, match.start()) + 1}: {match[1]} knows no bound: use base/text.h"
    for match in PRINT.finditer(code):
        if not is_statement(code, match.start(), closing(code, match.end() - 1)):
            yield f"{place}:{code.count(chr(10), 0, match.start()) + 1}: the result of snprintf is no size: use base/text.h"


def problems(root: pathlib.Path) -> list[str]:
    found = []
    for path in tree.sources(root, ".c", ".h") + tree.sources(root, ".c", ".h", folder="tools"):
        place, code = path.relative_to(root).as_posix(), code_of(path)
        if place != BUILDER:
            found += print_problems(place, code)
    return found


if __name__ == "__main__":
    tree.main(problems)
