#!/usr/bin/env python3
"""Who may include what, who may export what, and that every C file is in src/meson.build."""
from __future__ import annotations

import pathlib
import re

import tree

# Folder of src -> folders it may include. "abi" is dlock.h.
MAY_INCLUDE = {
    "base": {"base", "abi"},
    "sys": {"sys"},
    "scripts": {"scripts"},
    "engine": {"engine", "base", "abi"},
    "redis": {"redis", "base", "sys", "scripts", "abi"},
    "watchdog": {"watchdog", "engine", "redis", "sys", "base", "abi"},
    "api": {"api", "watchdog", "engine", "sys", "base", "abi"},
}

# What watchdog may know of the store behind base/store.h: how to open it, and transactions, which are Redis's own.
SEAM = {"redis/store.h", "redis/txn.h"}

# What redis may know of engine: how the votes of servers are counted.
VOTES = {"engine/quorum.h"}

# System headers that any folder may include: no clock, no threads, no I/O but formatting.
PLAIN = {"assert", "ctype", "errno", "inttypes", "limits", "search", "stdarg", "stdbool", "stddef", "stdint", "stdio",
         "stdlib", "string"}
ENGINE = PLAIN - {"errno", "stdio"}
SOCKETS = {"arpa/inet", "fcntl", "netdb", "netinet/in", "netinet/tcp", "poll", "sched", "sys/socket", "sys/time", "sys/types",
           "sys/uio", "sys/un", "unistd"}
# sys may include everything. pthread.h is there for mutexes only: threads start and forks are seen in sys.
MAY_INCLUDE_SYSTEM = {
    "base": PLAIN,
    "scripts": PLAIN,
    "engine": ENGINE,
    "redis": PLAIN | SOCKETS | {"stdatomic", "pthread"},
    "watchdog": PLAIN | {"stdatomic", "pthread", "poll"},
    "api": PLAIN | {"stdatomic", "pthread"},
}
HIREDIS_FILE = "src/redis/codec.c"
OPENSSL_FILES = {f"src/redis/tls{rest}" for rest in (".c", "_context.c", "_why.c", "_inner.h")}
HIREDIS_HEADERS = {"hiredis.h", "read.h", "sds.h", "alloc.h"}
THREAD_CALLS = re.compile(r"\b(pthread_create|pthread_atfork|clock_gettime|getrandom)\s*\(")


def include_problems(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    found = []
    folder = path.relative_to(root / "src").parts[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        place = f"{path.relative_to(root)}:{number}"
        if folder != "sys" and (call := THREAD_CALLS.search(line)):
            found.append(f"{place}: only src/sys calls {call[1]}")
        match = re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", line)
        if not match:
            continue
        bracket, name = match.groups()
        if "hiredis" in name or name in HIREDIS_HEADERS:
            if str(path.relative_to(root)) != HIREDIS_FILE:
                found.append(f"{place}: only {HIREDIS_FILE} includes hiredis")
        elif name.startswith("openssl/"):
            if str(path.relative_to(root)) not in OPENSSL_FILES:
                found.append(f"{place}: only {', '.join(sorted(OPENSSL_FILES))} include OpenSSL")
        elif bracket == '"':
            target = name.split("/")[0] if "/" in name else "abi" if name == "dlock.h" else folder
            if folder == "redis" and name in VOTES:
                continue
            if target not in MAY_INCLUDE[folder]:
                found.append(f"{place}: {folder} does not include {target} ({name})")
            elif folder == "watchdog" and target == "redis" and name not in SEAM:
                found.append(f"{place}: watchdog asks the store through base/store.h ({name})")
        elif folder != "sys" and name.removesuffix(".h") not in MAY_INCLUDE_SYSTEM[folder]:
            found.append(f"{place}: {folder} does not include <{name}>")
    return found


def export_problems(root: pathlib.Path) -> list[str]:
    found = []
    for function in tree.functions(root):
        path = pathlib.Path(function["path"]).relative_to(root)
        name, place = function["name"], f"{path}:{function['line']}"
        if not function.get("file") and not name.startswith(("dli_", "dlock_")) and path.suffix == ".c":
            found.append(f"{place}: {name} is neither static nor named dli_")
    for path in tree.sources(root, ".c", ".h"):
        if path.parent.name == "api":
            continue
        code = re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group().count("\n"), path.read_text(), flags=re.S)
        for number, line in enumerate(code.splitlines(), 1):
            place = f"{path.relative_to(root)}:{number}"
            if re.search(r"DLOCK_API|visibility\s*\(", line):
                found.append(f"{place}: only src/api exports")
            if call := re.search(r"\b(dlock_[a-z_]+)\s*\((?!\*)", line):
                found.append(f"{place}: {call[1]}: only src/api defines and calls dlock_ functions")
    return found


def problems(root: pathlib.Path) -> list[str]:
    found = []
    for path in tree.sources(root, ".c", ".h"):
        found += include_problems(root, path)
    listed = set(re.findall(r"'(\w+/\w+\.c)'", (root / "src/meson.build").read_text()))
    for path in tree.sources(root, ".c"):
        if str(path.relative_to(root / "src")) not in listed:
            found.append(f"{path.relative_to(root)}: not in src/meson.build")
    return found + export_problems(root)


if __name__ == "__main__":
    tree.main(problems)
