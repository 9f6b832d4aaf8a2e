#!/usr/bin/env python3
"""Write the Lua scripts as one C file: embed.py OUT.c SCRIPT.lua...

A line "--@include NAME.lua" is replaced by that file of the same folder, "--@include FOLDER/NAME.lua" by a file of a folder
beside it. Comment lines and blank lines are left out. The rest is the text that the server gets, and that the SHA1 is of. Long
comments (--[[) are refused.

Each script has three forms: plain, and two for clusters with sharded channels. In "sharded", PUBLISH becomes SPUBLISH and NUMSUB
becomes SHARDNUMSUB for the channels of locks, but not for our own: ear(...) and 'dlock_client:'. In "both", shared/both.lua comes
first and the plain form follows, so that the two share their text. A script that tries commands by name, "try(...)", has its lines
in either form instead.

A script that is sent with ASKING has shared/asking.lua before any of these texts. The server gets the two texts as one, which has a
SHA1 of its own.
"""
import hashlib
import pathlib
import re
import sys

HEAD = """\
/* Written by embed.py. Do not edit. */
#include "redis/scripts/scripts.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"
"""


TABLES = {"plain": "dli_scripts", "sharded": "dli_scripts_sharded", "both": "dli_scripts_both"}
SHARDED = {"PUBLISH": "SPUBLISH", "NUMSUB": "SHARDNUMSUB"}


def load(path: pathlib.Path, above: tuple[pathlib.Path, ...] = ()) -> list[str]:
    """The lines of a script without comments and blank lines, with includes replaced."""
    if path in above:
        sys.exit(f"{path}: includes itself")
    lines: list[str] = []
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        bare = line.strip()
        if bare.startswith("--@include "):
            name = bare.split(maxsplit=1)[1]
            lines += load((path.parent.parent if "/" in name else path.parent) / name, (*above, path))
        elif bare.startswith("--[[") or bare.startswith("--[="):
            sys.exit(f"{path}:{number}: long comments are refused")
        elif bare and not bare.startswith("--"):
            lines.append(line.rstrip())
    return lines


BOTH = load(pathlib.Path(__file__).parent / "shared/both.lua")
ASKING = load(pathlib.Path(__file__).parent / "shared/asking.lua")


def size_of(lines: list[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def c_string(line: str) -> str:
    """A C string literal of the line and its newline. "?" is escaped against trigraphs."""
    for char in '\\"?':
        line = line.replace(char, "\\" + char)
    return '"' + line.replace("\t", "\\t") + '\\n"'


def shard(line: str) -> str:
    return re.sub(r"'(PUBLISH|NUMSUB)', (?!ear\(|'dlock_client:')", lambda found: f"'{SHARDED[found[1]]}', ", line)


def both(lines: list[str]) -> list[str]:
    for line in lines:
        if re.search(r"\bredis\.(?!p?call\b|error_reply\b|sha1hex\b)|\bpcall\('PUB", line):
            sys.exit(f"both.lua does not have this: {line}")
    if any(line.strip().startswith("try('PUB") for line in lines):
        return [one for line in lines for one in dict.fromkeys([line, shard(line)])]
    return BOTH + lines if any(shard(line) != line for line in lines) else lines


class Script:
    """A script in its forms. A form is the name of a text, and the byte of it where the form begins."""

    def __init__(self, path: pathlib.Path) -> None:
        plain = load(path)
        sharded, doubled = [shard(line) for line in plain], both(plain)
        self.name = path.stem
        self.texts = {"both": doubled}
        self.forms = {"both": ("both", 0), "plain": ("both", size_of(doubled) - size_of(plain))}
        if doubled[-len(plain) :] != plain:
            self.texts["plain"], self.forms["plain"] = plain, ("plain", 0)
        self.forms["sharded"] = self.forms["plain"]
        if sharded != plain:
            self.texts["sharded"], self.forms["sharded"] = sharded, ("sharded", 0)

    def literals(self) -> str:
        """Macros of string literals. Literals that are equal, or end alike, are stored once."""
        found = ""
        for form, lines in self.texts.items():
            found += f"\n#define {self.name}_{form} \\\n" + " \\\n".join("    " + c_string(line) for line in lines) + "\n"
        return found

    def row(self, form: str) -> str:
        text, start = self.forms[form]
        said = "".join(line + "\n" for line in self.texts[text]).encode()[start:]
        sha1, asking = hashlib.sha1(said).hexdigest(), hashlib.sha1("".join(line + "\n" for line in ASKING).encode() + said).hexdigest()
        at = f"&{self.name}_{text}[{start}]" if start else f"{self.name}_{text}"
        return f'    [DLI_SCRIPT_{self.name.upper()}] = {{"{self.name}", {at}, {len(said)}, "{sha1}", "{asking}"}},\n'


def main() -> None:
    out, *paths = map(pathlib.Path, sys.argv[1:])
    scripts = [Script(path) for path in paths]
    text = HEAD + "".join(script.literals() for script in scripts)
    text += "\nconst char dli_script_asking[] = \n" + "\n".join("    " + c_string(line) for line in ASKING) + ";\n"
    for form, name in TABLES.items():
        text += f"\nconst struct dli_script {name}[DLI_SCRIPT_COUNT] = {{\n"
        text += "".join(script.row(form) for script in scripts) + "};\n"
    out.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
