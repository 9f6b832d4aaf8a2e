#!/usr/bin/env python3
"""Write the Lua scripts as one C file: embed.py OUT.c SCRIPT.lua...

A line "--@include NAME.lua" is replaced by that file of the same folder. Comment lines and blank lines are left out: what
remains is what the server gets and what the SHA1 is of. Long comments (--[[) are refused.

Each script is there twice, the second time for clusters with sharded channels: PUBLISH is SPUBLISH and NUMSUB SHARDNUMSUB where the
channel is a lock's; ear(...) and 'dlock_client:' are not.
"""
import hashlib
import pathlib
import re
import sys

HEAD = """\
/* Written by embed.py. Do not edit. */
#include "scripts/scripts.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"
"""


SHARDED = {"PUBLISH": "SPUBLISH", "NUMSUB": "SHARDNUMSUB"}


def load(path: pathlib.Path, above: tuple[pathlib.Path, ...] = ()) -> list[str]:
    """The lines of a script that matter, includes taken in."""
    if path in above:
        sys.exit(f"{path}: includes itself")
    lines: list[str] = []
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        bare = line.strip()
        if bare.startswith("--@include "):
            lines += load(path.parent / bare.split(maxsplit=1)[1], (*above, path))
        elif bare.startswith("--[[") or bare.startswith("--[="):
            sys.exit(f"{path}:{number}: long comments are refused")
        elif bare and not bare.startswith("--"):
            lines.append(line.rstrip())
    return lines


def quote(line: str) -> str:
    """A C string literal of the line and its newline. "?" is escaped against trigraphs."""
    for char in '\\"?':
        line = line.replace(char, "\\" + char)
    return '"' + line.replace("\t", "\\t") + '\\n"'


def shard(line: str) -> str:
    return re.sub(r"'(PUBLISH|NUMSUB)', (?!ear\(|'dlock_client:')", lambda found: f"'{SHARDED[found[1]]}', ", line)


def row(path: pathlib.Path, sharded: bool) -> str:
    lines = [shard(line) for line in load(path)] if sharded else load(path)
    text = "".join(line + "\n" for line in lines)
    literal = "\n".join("             " + quote(line) for line in lines)
    sha1 = hashlib.sha1(text.encode()).hexdigest()
    return (
        f'    [DLI_SCRIPT_{path.stem.upper()}] =\n        {{"{path.stem}",\n{literal},\n'
        f'         {len(text.encode())}, "{sha1}"}},\n'
    )


def main() -> None:
    out, *scripts = map(pathlib.Path, sys.argv[1:])
    text = HEAD
    for sharded, name in enumerate(("dli_scripts", "dli_scripts_sharded")):
        text += f"\nconst struct dli_script {name}[DLI_SCRIPT_COUNT] = {{\n"
        text += "".join(row(path, bool(sharded)) for path in scripts) + "};\n"
    out.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
