#!/usr/bin/env python3
"""The guard of the ABI: reads dlock.h, which keeps to a profile so narrow that no C parser is needed.

    gen.py check            profile, map, locked prototypes, generated files fresh
    gen.py write            add to dlock.sigs, write _abi.py, _statuses.pyi, operations.py and makers.py in
                            bindings/python/dlock, bindings/lua/dlock/cdef.lua, bindings/go/abi.go, what is written
                            in bindings/rust (gen_rust.py) and bindings/node (gen_node.py), dlock.json and docs/api.md
    gen.py write --unlock   the same, and allow sigs lines to change (only before a first release)
    gen.py symbols LIB      header = map = what LIB exports; its SONAME; that it cannot be unloaded

--root DIR works on another tree than the one this file stands in (tests use it).
"""
from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys
from typing import Iterable

from gen_docs import api_md
from gen_go import abi_go, kinds, submitted
from gen_json import Missing, contract, dlock_json, read_rows
from gen_node import calls_c, numbers_js, requests_dts, requests_js
from gen_python import makers_py, operations_py
from gen_rust import dlock_sys_rs, numbers_rs, raw_rs, requests_rs
from go_names import KINDS, VERBS
from python_names import KINDS as PYTHON_KINDS, VERBS as PYTHON_VERBS

SONAME = "libdlock.so.1"
SCALARS = ("int32_t", "int64_t", "uint32_t", "uint64_t", "size_t")
BYTES = ("const char *", "char *", "const uint8_t *", "uint8_t *")
TAGS = ("Threads:", "Blocks:", "Since:")

# The only preprocessor lines of a header, in this order.
DIRECTIVES = [
    "#ifndef DLOCK_H", "#define DLOCK_H", "#include <stddef.h>", "#include <stdint.h>",
    "#ifdef __cplusplus", "#endif", "#ifndef DLOCK_API", "#define DLOCK_API", "#endif",
    "#ifdef __cplusplus", "#endif", "#endif",
]

# What is refused by name, with the reason given. Searched in the header without comments and directives.
REFUSED = [
    (r"\.\.\.|\bva_list\b", "variable arguments"),
    (r"\(\s*\*", "function pointer"),
    (r"\bunion\b", "union"),
    (r"\bstruct\s+\w*\s*\{", "struct definition"),
    (r"\benum\s+\w+", "named enum or enum type in a signature"),
    (r"\b(float|double)\b", "floating point"),
    (r"\b(bool|_Bool)\b", "bool"),
    (r"\b(long|short|int|unsigned|signed)\b", "integer without a fixed width"),
    (r"\b(inline|static)\b", "inline body"),
    (r"\b\w+\s*:\s*\d+\s*;", "bit-field"),
    (r"\bvoid\s*\*", "void pointer"),
    (r"\[", "array"),
]


class Refused(Exception):
    """The header, the map or a generated file is not as it must be."""


@dataclasses.dataclass
class Function:
    name: str
    returns: str
    params: list[tuple[str, str]]  # (type, name)
    since: str
    blocks: str  # "never", or up to what
    comment: str

    def signature(self) -> str:
        params = ", ".join((kind if kind.endswith("*") else kind + " ") + name for kind, name in self.params)
        return f"{self.returns} ({params or 'void'})"


@dataclasses.dataclass
class Header:
    constants: dict[str, int] = dataclasses.field(default_factory=dict)
    integers: dict[str, str] = dataclasses.field(default_factory=dict)  # typedef name -> fixed-width type
    opaque: list[str] = dataclasses.field(default_factory=list)
    statuses: list[str] = dataclasses.field(default_factory=list)  # without DLOCK_
    functions: dict[str, Function] = dataclasses.field(default_factory=dict)
    groups: list[tuple[str, list[str]]] = dataclasses.field(default_factory=list)  # enums: the comment above, the names


# ---- reading the header


def blank(text: str) -> str:
    """As many newlines as text has: what is taken out keeps the line numbers of the rest."""
    return "\n" * text.count("\n")


def split_comments(text: str) -> tuple[str, dict[int, str]]:
    """The text without comments, and each comment under the number of the line after it."""
    comments: dict[int, str] = {}

    def take(match: re.Match[str]) -> str:
        comments[text.count("\n", 0, match.end()) + 2] = match.group()
        return blank(match.group()) or " "

    code = re.sub(r"/\*.*?\*/", take, text, flags=re.S)
    if "//" in code or "/*" in code:
        raise Refused("only closed /* */ comments are allowed")
    return code, comments


def take_directives(code: str) -> str:
    """Check the preprocessor lines against DIRECTIVES and take them out, with the C++ braces they guard."""
    if re.search(r"\\[ \t]*$", code, flags=re.M):
        raise Refused("line continuation")
    found = [" ".join(line.split()) for line in code.splitlines() if line.lstrip().startswith("#")]
    for line in found:
        if re.match(r"#define \w+\(", line):
            raise Refused(f"function-like macro: {line}")
        if line not in DIRECTIVES:
            what = "conditional declaration" if line.startswith("#if") else "preprocessor line"
            raise Refused(f"{what}: {line}")
    if found != DIRECTIVES:
        raise Refused("the guard, includes, C++ block and DLOCK_API default are not in their places")
    braces = r"#ifdef __cplusplus\n(extern \"C\" \{|\})\n#endif"
    code, count = re.subn(braces, lambda match: blank(match.group()), code)
    if count != 2:
        raise Refused("the C++ blocks must hold 'extern \"C\" {' and '}' only")
    return re.sub(r"^[ \t]*#.*$", "", code, flags=re.M)


def read_header(text: str) -> Header:
    code, comments = split_comments(text)
    code = take_directives(code)
    for pattern, reason in REFUSED:
        if match := re.search(pattern, code):
            line = code.count("\n", 0, match.start()) + 1
            raise Refused(f"dlock.h:{line}: {reason}: {match.group().strip()!r}")
    header = Header()
    place = 0
    declaration = re.compile(r"\s*([^;{}]*(?:\{[^{}]*\}[^;{}]*)?);")
    while code[place:].strip():
        match = declaration.match(code, place)
        line = code.count("\n", 0, match.start(1) if match else place) + 1
        if not match:
            raise Refused(f"dlock.h:{line}: not a declaration")
        try:
            read_declaration(header, match.group(1), comments.get(line, ""))
        except Refused as error:
            raise Refused(f"dlock.h:{line}: {error}") from None
        place = match.end()
    return header


def read_declaration(header: Header, text: str, comment: str) -> None:
    flat = " ".join(text.split())
    if match := re.fullmatch(r"typedef (\w+) (dlock_\w+)", flat):
        if match[1] not in SCALARS:
            raise Refused(f"typedef of {match[1]}")
        header.integers[match[2]] = match[1]
    elif match := re.fullmatch(r"typedef struct (dlock_\w+) (dlock_\w+)", flat):
        if match[1] != match[2]:
            raise Refused("an opaque type has one name")
        header.opaque.append(match[1])
    elif match := re.fullmatch(r"enum \{(.*)\}", flat):
        read_enum(header, match[1], comment)
    elif re.match(r"DLOCK_API\n", text):
        function = read_function(header, flat.removeprefix("DLOCK_API "), comment)
        if function.name in header.functions:
            raise Refused(f"{function.name} is declared twice")
        header.functions[function.name] = function
    else:
        raise Refused(f"not in the profile (DLOCK_API must stand alone on the line above a prototype): {flat[:80]}")


def read_enum(header: Header, body: str, comment: str) -> None:
    values: set[int] = set()
    names: list[str] = []
    for item in body.rstrip(" ,").split(","):
        match = re.fullmatch(r"(DLOCK_[A-Z0-9_]+) = (-?\d+)", item.strip())
        if not match:
            raise Refused(f"enumerator without an explicit value: {item.strip()}")
        name, value = match[1], int(match[2])
        if name in header.constants or value in values:
            raise Refused(f"{name}: name or number used twice")
        if not -(2**31) <= value < 2**31:
            raise Refused(f"{name}: more than 32 bits")
        header.constants[name] = value
        values.add(value)
        names.append(name.removeprefix("DLOCK_"))
    header.groups.append((comment, ["DLOCK_" + name for name in names]))
    if names[0] == "OK":
        header.statuses = names


def read_type(header: Header, text: str) -> str:
    """The type in one spelling: "const char *", "dlock_lock **"."""
    words = re.findall(r"\w+|\*", text)
    stars = words.count("*")
    if "*" in words[: len(words) - stars]:
        raise Refused(f"type {text.strip()!r}")
    kind = " ".join(words[: len(words) - stars]) + (" " + "*" * stars if stars else "")
    base, integer = kind.removeprefix("const ").rstrip(" *"), (*SCALARS, *header.integers)
    if not (
        (stars == 0 and kind in integer)
        or (stars == 1 and (kind in BYTES or base in header.opaque or kind.rstrip(" *") in integer))
        or (stars == 2 and kind.rstrip(" *") in header.opaque)
    ):
        raise Refused(f"type {kind!r}")
    return kind


def read_function(header: Header, flat: str, comment: str) -> Function:
    match = re.fullmatch(r"(.+?)(dlock_[a-z0-9_]+)\((.*)\)", flat)
    if not match:
        raise Refused(f"not a prototype: {flat[:80]}")
    name = match[2]
    missing = [tag for tag in TAGS if tag not in comment]
    if missing:
        raise Refused(f"{name}: the comment above does not say {' '.join(missing)}")
    since = re.search(r"Since: (\d+\.\d+)\b", comment)
    if not since:
        raise Refused(f"{name}: 'Since:' names no version")
    returns = "void" if match[1].strip() == "void" else read_type(header, match[1])
    params = []
    for param in [] if match[3] == "void" else match[3].split(","):
        parts = re.fullmatch(r"\s*(.+?)\s*\b([a-z]\w*)\s*", param)
        if not parts or parts[2] in (*SCALARS, *header.integers, *header.opaque, "char", "uint8_t"):
            raise Refused(f"{name}: parameter without a name: {param.strip()!r}")
        params.append((read_type(header, parts[1]), parts[2]))
    blocks = re.search(r"Blocks: ([^.]*)", comment)
    return Function(name, returns, params, since[1], " ".join(blocks[1].split()) if blocks else "", comment)


def read_texts(code: str) -> dict[str, str]:
    """The sentence of each status, by its name, from the table in src/base/error.c."""
    texts: dict[str, str] = {}
    for name, literals in re.findall(r'\bROW\((\w+),\s*[01],((?:\s*"[^"\\\n]*")+)\),', code):
        if name in texts:
            raise Refused(f"error.c: {name}: two sentences")
        texts[name] = "".join(re.findall(r'"(.*?)"', literals))
    return texts


# ---- map and locked prototypes


def read_map(text: str) -> dict[str, str]:
    """Function -> version node. Nodes stand oldest first; the first hides everything else."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    nodes: dict[str, str] = {}
    seen: list[str] = []
    for number, match in enumerate(re.finditer(r"(DLOCK_\d+\.\d+)\s*\{(.*?)\}\s*(\S*?)\s*;", text, flags=re.S)):
        node, body, parent = match.groups()
        if parent != (seen[-1] if seen else ""):
            raise Refused(f"dlock.map: {node} must build on the node before it")
        body = body.replace("global:", "")
        if number == 0:
            body, count = re.subn(r"local:\s*\*\s*;", "", body)
            if count != 1:
                raise Refused(f"dlock.map: {node} must end in 'local: *;'")
        for symbol in re.findall(r"[^\s;]+", body):
            if not re.fullmatch(r"dlock_\w+", symbol) or symbol in nodes:
                raise Refused(f"dlock.map: {symbol}: not a plain name, or twice")
            nodes[symbol] = node
        seen.append(node)
    if not seen:
        raise Refused("dlock.map: no version node")
    return nodes


def sigs_lines(header: Header, nodes: dict[str, str]) -> list[str]:
    lines = [f"opaque {name}" for name in header.opaque]
    lines += [f"integer {name} = {base}" for name, base in header.integers.items()]
    lines += [f"constant {name} = {value}" for name, value in header.constants.items()]
    lines += [f"function {f.name}: {f.signature()} @ {nodes[f.name]}" for f in header.functions.values()]
    return lines


SIGS_HEAD = "# Written by abi/gen.py. A line that stands here never changes and never goes; lines are added."


def grown(line: str, new: list[str]) -> bool:
    """True for a constant NAME_COUNT that is larger now: it says how many places this version of the header knows."""
    match = re.fullmatch(r"(constant \w+_COUNT = )(\d+)", line)
    return bool(match) and any(other.startswith(match[1]) and int(other.split()[-1]) > int(match[2]) for other in new)


def check_locked(old: list[str], new: list[str], newest: str) -> None:
    gone = [line for line in old if line not in new and not grown(line, new)]
    if gone:
        raise Refused("locked, but changed or removed in dlock.h or dlock.map:\n  " + "\n  ".join(gone))
    late = [line for line in new if line not in old and " @ " in line and not line.endswith(" @ " + newest)]
    if old and late:
        raise Refused(f"new functions belong to the newest node, {newest}:\n  " + "\n  ".join(late))


# ---- the table for ctypes

CTYPES = {
    "void": "None", "const char *": "c_char_p", "char *": "POINTER(c_char)",
    "const uint8_t *": "c_char_p", "uint8_t *": "POINTER(c_uint8)", "size_t": "c_size_t",
    **{kind: "c_" + kind.removesuffix("_t") for kind in SCALARS if kind != "size_t"},
}

ABI_HEAD = '''\
"""The ABI for ctypes, from abi/dlock.h. Written by abi/gen.py: do not edit.

PROTOTYPES maps each function to its result type and the list of its argument types. Each opaque type has an empty class
and a pointer type NAME_p. Input bytes are a c_char_p and a length. BLOCKING: the functions that may wait for the
network or for time.
"""
'''

ABI_POINTERS = '''\
import sys
from typing import Any


class Pointer:
    """The only pointer to an object of the library: its last reference frees the object. A place for a handle is made
    before the call that fills it, so that no handle is lost."""

    library: Any = None

    def __del__(self, exiting: Any = sys.is_finalizing) -> None:
        if self and not exiting():  # at exit threads may still be inside
            getattr(self.library, type(self).__name__[:-2] + "_free")(self)


def pointer(kind: Any) -> Any:
    plain: Any = POINTER(kind)
    return type(plain)(kind.__name__ + "_p", (Pointer, plain), {"_type_": kind})
'''

# What else an exception of Python's is, for code that knows nothing of dlock; all INVALID_ ones are ValueErrors.
ALSO = {
    "TIMED_OUT": "TimeoutError", "UNREACHABLE": "ConnectionError", "DENIED": "PermissionError",
    "OUT_OF_MEMORY": "MemoryError", "NOT_HELD": "RuntimeError", "UNKNOWN_OPTION": "ValueError",
    "DUPLICATE_NAME": "ValueError",
}

STATUSES_HEAD = '''\
"""The exceptions for type checkers, from src/base/error.c. Written by abi/gen.py: do not edit.

At run time _errors.define makes them.
"""
from ._errors import DlockError
'''


def ctype(header: Header, kind: str) -> str:
    kind = header.integers.get(kind, kind)
    if kind in CTYPES:
        return CTYPES[kind]
    base = kind.removeprefix("const ").rstrip(" *")
    if base in header.opaque:
        return base + "_p" if kind.count("*") == 1 else f"POINTER({base}_p)"
    return f"POINTER({ctype(header, base)})"


def abi_py(header: Header) -> str:
    lines: list[str] = []
    for name in header.opaque:
        lines += ["", "", f"class {name}(Structure):", '    """Opaque."""', "", "", f"{name}_p = pointer({name})"]
    lines.append("")
    lines += [f"{name} = {value}" for name, value in header.constants.items()]
    lines += ["", "ALSO = {  # what else exceptions are, see gen.py"]
    lines += [f'    "{name}": {also},' for name, also in ALSO.items()]
    lines += ["}", "", "PROTOTYPES = {"]
    for function in header.functions.values():
        arguments = ", ".join(ctype(header, kind) for kind, _ in function.params)
        lines.append(f'    "{function.name}": ({ctype(header, function.returns)}, [{arguments}]),')
    lines += ["}", "", "BLOCKING = {"]
    lines += [f'    "{function.name}",' for function in header.functions.values() if function.blocks != "never"]
    body = "\n".join([*lines, "}", ""])
    names = sorted(set(re.findall(r"\bc_\w+|POINTER|Structure", body)))
    return f"{ABI_HEAD}from ctypes import {', '.join(names)}\n{ABI_POINTERS}{body}"


def statuses_pyi(texts: dict[str, str]) -> str:
    lines = [STATUSES_HEAD]
    for name, text in texts.items():
        if name != "OK":
            also = ALSO.get(name, "ValueError" if name.startswith("INVALID_") else None)
            bases = f"DlockError, {also}" if also else "DlockError"
            lines += [f"class {name.title().replace('_', '')}({bases}):", f'    """{text}"""', ""]
    return "\n".join(lines)


# ---- the declarations for LuaJIT

CDEF_HEAD = """\
-- The ABI for LuaJIT's FFI, from abi/dlock.h. Written by abi/gen.py: do not edit.
"""


def cdef_lua(header: Header) -> str:
    lines = [f"typedef {base} {name};" for name, base in header.integers.items()]
    lines += [f"typedef struct {name} {name};" for name in header.opaque]
    for function in header.functions.values():
        result, _, params = function.signature().partition(" (")
        lines.append(f"{result} {function.name}({params};".replace("* dlock", "*dlock"))
    constants = [f"    {name} = {value}," for name, value in header.constants.items()]
    return "\n".join([CDEF_HEAD + "return {", "cdef = [[", *lines, "]],", "constants = {", *constants, "},", "}", ""])


# ---- the commands


class Tree:
    def __init__(self, root: pathlib.Path) -> None:
        self.sigs_path = root / "abi/dlock.sigs"
        self.abi_py_path = root / "bindings/python/dlock/_abi.py"
        self.statuses_pyi_path = root / "bindings/python/dlock/_statuses.pyi"
        self.operations_py_path = root / "bindings/python/dlock/operations.py"
        self.makers_py_path = root / "bindings/python/dlock/makers.py"
        self.cdef_lua_path = root / "bindings/lua/dlock/cdef.lua"
        self.abi_go_path = root / "bindings/go/abi.go"
        self.api_md_path = root / "docs/api.md"
        self.json_path = root / "abi/dlock.json"
        self.rust_path = root / "bindings/rust"
        self.node_path = root / "bindings/node"
        self.table = (root / "src/base/error.c").read_text()
        self.texts = read_texts(self.table)
        self.text = (root / "abi/dlock.h").read_text()
        self.header = read_header(self.text)
        self.nodes = read_map((root / "abi/dlock.map").read_text())
        compare("dlock.h", self.header.functions, "dlock.map", self.nodes)
        compare("dlock.h", self.header.statuses, "error.c", self.texts)
        compare("dlock.h", kinds(self.header), "go_names.py", KINDS)
        compare("dlock.h", kinds(self.header), "python_names.py", PYTHON_KINDS)
        submits = [function.name.removeprefix("dlock_") for function in submitted(self.header)]
        compare("dlock.h", submits, "go_names.py", VERBS)
        asked = [name.replace("_submit", "") for name in submits if not name.startswith("client_")]
        compare("dlock.h", asked, "python_names.py", PYTHON_VERBS)
        for function in self.header.functions.values():
            if self.nodes[function.name] != "DLOCK_" + function.since:
                raise Refused(f"{function.name}: since {function.since}, but in node {self.nodes[function.name]}")
        self.lines = sigs_lines(self.header, self.nodes)
        self.newest = list(self.nodes.values())[-1]

    def locked(self) -> list[str]:
        if not self.sigs_path.exists():
            return []
        return [line for line in self.sigs_path.read_text().splitlines() if line and not line.startswith("#")]

    def check(self) -> None:
        check_locked(self.locked(), self.lines, self.newest)
        for path, text in self.generated().items():
            if not path.exists() or path.read_text() != text:
                raise Refused(f"{path.name} is not fresh: run abi/gen.py write")

    def generated(self) -> dict[pathlib.Path, str]:
        sigs = "\n".join([SIGS_HEAD, *self.lines, ""])
        generated = {self.abi_py_path: abi_py(self.header), self.cdef_lua_path: cdef_lua(self.header)}
        generated[self.statuses_pyi_path] = statuses_pyi(self.texts)
        generated[self.operations_py_path] = operations_py(self.header)
        generated[self.makers_py_path] = makers_py()
        generated[self.abi_go_path] = abi_go(self.header, self.texts)
        generated[self.api_md_path] = api_md(self.text)
        whole = contract(self.header, self.nodes, SONAME, read_rows(self.table), self.text)
        generated[self.json_path] = dlock_json(whole)
        generated[self.rust_path / "dlock-sys/src/lib.rs"] = dlock_sys_rs(whole)
        for name, text in (("raw", raw_rs(whole)), ("numbers", numbers_rs(whole)), ("requests", requests_rs(whole))):
            generated[self.rust_path / f"dlock/src/{name}.rs"] = text
        node = {"src/calls.c": calls_c, "lib/numbers.js": numbers_js, "lib/requests.js": requests_js, "lib/requests.d.ts": requests_dts}
        generated |= {self.node_path / name: made(whole) for name, made in node.items()}
        return {self.sigs_path: sigs, **generated}

    def write(self, unlock: bool) -> None:
        if not unlock:
            check_locked(self.locked(), self.lines, self.newest)
        for path, text in self.generated().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def symbols(self, library: str) -> None:
        found = {}
        for line in run("nm", "-D", "--defined-only", library).splitlines():
            name, _, node = line.split()[-1].partition("@@")
            if not re.fullmatch(r"DLOCK_\d+\.\d+", name):  # the node itself
                found[name] = node
        compare("dlock.map", self.nodes, library, found)
        wrong = [name for name, node in found.items() if node != self.nodes[name]]
        if wrong:
            raise Refused(f"{library}: in another node than the map says: {' '.join(wrong)}")
        dynamic = run("readelf", "-dW", library)
        if f"soname: [{SONAME}]" not in dynamic:
            raise Refused(f"{library}: its SONAME is not {SONAME}")
        if "NODELETE" not in dynamic:
            raise Refused(f"{library}: not linked with -z nodelete")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return done.stdout


def compare(left_name: str, left: Iterable[str], right_name: str, right: Iterable[str]) -> None:
    only_left, only_right = sorted(set(left) - set(right)), sorted(set(right) - set(left))
    if only_left or only_right:
        raise Refused(
            f"only in {left_name}: {' '.join(only_left) or '-'}; only in {right_name}: {' '.join(only_right) or '-'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("write").add_argument("--unlock", action="store_true")
    commands.add_parser("symbols").add_argument("library")
    options = parser.parse_args()
    try:
        tree = Tree(options.root)
        if options.command == "check":
            tree.check()
        elif options.command == "write":
            tree.write(options.unlock)
        else:
            tree.symbols(options.library)
    except (Refused, Missing) as error:
        sys.exit(f"gen.py: {error}")


if __name__ == "__main__":
    main()
