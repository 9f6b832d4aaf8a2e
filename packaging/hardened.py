#!/usr/bin/env python3
"""hardened.py [--musl] FILE...: what makes attacks on a program harder, read from ELF files by readelf. Exits with 1 when something is missing.

FILE: a program, a shared library, an addon, or a folder: then all ELF files below it. A file must have: code at random addresses (PIE),
full RELRO, no segment that is writable and executable, no executable stack, no text relocations, no search path but one beside itself,
stack protectors, fortified calls of libc, and marked targets of indirect calls (CET on x86-64, BTI and PAC on aarch64). In files with debug
information, each of our objects must have been compiled with a check against stack clashes. --musl: musl has no fortified calls.
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys

# A target of an indirect call: endbr64; bti c, paciasp.
TARGETS = {"X86-64": [b"\xf3\x0f\x1e\xfa"], "AArch64": [b"\x5f\x24\x03\xd5", b"\x3f\x23\x03\xd5"]}
# With fortification most calls of these become calls of others. The compiler leaves those alone that it knows to be safe.
PLAIN = {"sprintf", "snprintf", "vsprintf", "vsnprintf", "fprintf", "vfprintf"}
CLASH = "-fstack-clash-protection"


def readelf(path: pathlib.Path, *options: str) -> str:
    done = subprocess.run(["readelf", "-W", *options, str(path)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    if done.returncode:
        raise SystemExit(f"{path}: readelf ended with {done.returncode}: {done.stderr}")
    return done.stdout


def is_elf(path: pathlib.Path) -> bool:
    """Whether it is a program or a shared library, not an object or an archive."""
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], "little") in (2, 3)


def layout_problems(path: pathlib.Path) -> list[str]:
    """In the segments and the dynamic section."""
    text = readelf(path, "-h", "-l", "-d")
    segments = re.findall(r"^ +([A-Z]\w+) +(?:0x\w+ +){5}([R ][W ][E ])", text, re.M)
    flags = " ".join(re.findall(r"\((?:FLAGS|FLAGS_1|BIND_NOW)\)(.*)", text)) + (" NOW" if "(BIND_NOW)" in text else "")
    stacks = [access for kind, access in segments if kind == "GNU_STACK"]
    paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text)
    return [problem for problem, found in {
        "is at a fixed address (no PIE)": not re.search(r"Type: +DYN", text),
        "has no RELRO": not any(kind == "GNU_RELRO" for kind, _ in segments),
        "has partial RELRO (no -z now)": not re.search(r"\b(BIND_)?NOW\b", flags),
        "has an executable stack": not stacks or "E" in stacks[0],
        "has a segment that is writable and executable": any("W" in access and "E" in access for _, access in segments),
        "has text relocations": "TEXTREL" in text,
        "is searched for libraries elsewhere": any(not part.startswith("$ORIGIN") for path in paths for part in path.split(":")),
    }.items() if found]  # fmt: skip


def code_problems(path: pathlib.Path, fortified: bool) -> list[str]:
    """In the code: what it calls, and how its functions begin."""
    symbols, sections = readelf(path, "--dyn-syms"), readelf(path, "-h", "-S")
    wanted = set(re.findall(r" UND +(\w+)", symbols))
    functions = len(re.findall(r" FUNC +GLOBAL +DEFAULT +\d+ ", symbols))
    machine = next((name for name in TARGETS if re.search(rf"Machine: .*{name}", sections)), "")
    place = re.search(r"\] \.text +PROGBITS +\w+ +(\w+) +(\w+)", sections)
    found = []
    if not wanted & {"__stack_chk_fail", "__stack_chk_guard"}:
        found.append("has no stack protectors")
    if fortified and wanted & PLAIN and not [name for name in wanted if re.fullmatch(r"__\w+_chk", name)]:
        found.append(f"calls functions, and none is fortified: {', '.join(sorted(wanted & PLAIN))}")
    if machine and place:
        offset, size = (int(number, 16) for number in place.groups())
        code = path.read_bytes()[offset : offset + size]
        if sum(code.count(mark) for mark in TARGETS[machine]) < max(functions, 8):  # the start-up code has some
            found.append("has functions that are no marked targets (CET, BTI)")
    return found


def compiler_problems(path: pathlib.Path) -> list[str]:
    """In what the debug information says about the compiler's options. Nothing without debug information; other people's objects may be in it."""
    told = readelf(path, "--debug-dump=info", "--dwarf-depth=1")
    units = re.findall(r"DW_AT_producer .*: (.*)\n.*\n.*DW_AT_name .*: (.*)", told)
    bare = sorted({name for options, name in units if "GNU C" in options and "/src/" in f"/{name}" and CLASH not in options})
    return [f"has code without {CLASH}: {', '.join(bare)}"] if bare else []


def problems(path: pathlib.Path, fortified: bool = True) -> list[str]:
    return layout_problems(path) + code_problems(path, fortified) + compiler_problems(path)


def main(names: list[str], fortified: bool = True) -> None:
    files = [path for name in map(pathlib.Path, names) for path in (sorted(name.rglob("*")) if name.is_dir() else [name])]
    files = [path for path in files if path.is_file() and not path.is_symlink() and is_elf(path)]
    found = [f"{path} {problem}" for path in files for problem in problems(path, fortified)]
    if not files or found:
        raise SystemExit("\n".join(found) or f"no ELF file in {' '.join(names)}")
    print(f"-- hardened: {', '.join(path.name for path in files)}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    musl = sys.argv[1] == "--musl"
    main(sys.argv[1 + musl :], fortified=not musl)
