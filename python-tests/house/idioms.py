#!/usr/bin/env python3
"""Ways of writing C that have hurt, and the way that is used instead: sizes of printed text, walks over lists, and what servers
send."""
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

# A node that is kept while others are called may go meanwhile. So a list is walked by dli_list_each (base/list.h), or its first node is
# taken off before each call.
LISTS = {"src/base/list.h", "src/base/list.c"}
KEPT = re.compile(r"(?<![\w>.])(next|after|following)\s*=\s*[\w.>-]*(?:->|\.)next\s*[;,]")
FOR = re.compile(r"\bfor\s*\(")
STEP = re.compile(r"\s*\w+\s*=\s*\w+\s*")

# What a server sends is checked at one border: each of these names, and who may use it. Behind it there are no raw numbers and bytes.
BORDERS = {
    r"dli_zk_decode_\w+|dli_zk_take\w*|struct dli_zk_reply": ("src/zookeeper/codec/", "src/zookeeper/link.c"),
    r"dli_etcd_wire\w*": ("src/etcd/codec/",),
    r"dli_grpc_answer|dli_grpc_asked": ("src/etcd/grpc/", "src/etcd/job.c"),
    r"->integer": ("src/redis/codec/",),
}


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


def parts_of(code: str, begin: int) -> list[str]:
    """The parts of the head of a for loop whose parenthesis opens at this place."""
    parts, depth = [""], 0
    for char in code[begin + 1 : closing(code, begin) - 1]:
        depth += {"(": 1, ")": -1, "{": 1, "}": -1}.get(char, 0)
        if char == ";" and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def walk_problems(place: str, code: str) -> Iterator[str]:
    """A loop that goes on to a node that it has kept, and variables that keep the next one."""
    for match in FOR.finditer(code):
        parts = parts_of(code, match.end() - 1)
        if len(parts) == 3 and STEP.fullmatch(parts[2]):
            yield f"{place}:{code.count(chr(10), 0, match.start()) + 1}: the loop keeps the next node: use dli_list_each"
    for match in KEPT.finditer(code):
        yield f"{place}:{code.count(chr(10), 0, match.start()) + 1}: {match[1]} keeps a node: use dli_list_each, or take off the first one"


def border_problems(place: str, code: str) -> Iterator[str]:
    for names, places in BORDERS.items():
        for match in re.finditer(rf"\b(?:{names})\b", code):
            if not place.startswith(places):
                yield f"{place}:{code.count(chr(10), 0, match.start()) + 1}: {match[0]} is for {' and '.join(places)}"


def problems(root: pathlib.Path) -> list[str]:
    found = []
    for path in tree.sources(root, ".c", ".h") + tree.sources(root, ".c", ".h", folder="tools"):
        place, code = path.relative_to(root).as_posix(), code_of(path)
        if place != BUILDER:
            found += print_problems(place, code)
        found += border_problems(place, code)
        if place not in LISTS:
            found += walk_problems(place, code)
    return found


if __name__ == "__main__":
    tree.main(problems)
