#!/usr/bin/env python3
"""Checks which file may include which, which may export what, how many files a folder has, and that src/meson.build has every C file."""
from __future__ import annotations

import pathlib
import re

import tree

# The rooms of src, each with the rooms it may include. Includes go downwards only: a room is listed below all rooms that include it. "abi"
# is dlock.h.
ROOMS = {
    "api": "client engine metrics store base sys abi",
    "client": "watchdog engine metrics store base sys abi",
    "watchdog": "engine store base sys abi",
    "etcd": "etcd/grpc etcd/codec lanes net store base sys abi",
    "etcd/grpc": "net base sys abi",
    "etcd/codec": "base abi",
    "zookeeper": "zookeeper/codec lanes net store base sys abi",
    "zookeeper/codec": "base abi",
    "memory": "store base sys abi",
    "lanes": "store base sys abi",
    "redis": "redis/cluster redis/quorum redis/single store base abi",
    "redis/cluster": "redis/txn redis/replicas redis/pubsub redis/pipe redis/link net redis/codec redis/scripts store base sys abi",
    "redis/quorum": "redis/single redis/voter engine store base sys abi",
    "redis/single": "redis/txn redis/replicas redis/pubsub redis/pipe redis/link net redis/codec store base sys abi",
    "redis/txn": "redis/link net redis/codec store base sys abi",
    "redis/replicas": "redis/pipe redis/link redis/codec store base sys abi",
    "redis/pubsub": "redis/link net redis/codec store base sys abi",
    "redis/pipe": "redis/link net redis/codec redis/scripts store base sys abi",
    "redis/link": "net redis/codec base sys abi",
    "redis/codec": "redis/voter redis/scripts store base sys abi",
    "redis/voter": "store base abi",
    "redis/scripts": "",
    "net": "base sys abi",
    "engine": "store base abi",
    "store": "base abi",
    "metrics": "base abi",
    "base": "abi",
    "sys": "",
    "abi": "",
}

# A room offers one header, NAME/NAME.h. base offers all of its headers but these.
PRIVATE_IN_BASE = {"base/url_parts.h"}

# The command uses the public header and headers of its own folder. It compiles the library's rule of what is printable, too.
COMMAND = "tools/dlock"
SHARED_WITH_COMMAND = {"base/printable.h"}

FOLDER_FILES = 45  # at the top of a folder

# System headers that any folder may include: no clock, no threads, no I/O but formatting.
PLAIN = {"assert", "ctype", "errno", "inttypes", "limits", "search", "stdarg", "stdbool", "stddef", "stdint", "stdio",
         "stdlib", "string"}
ENGINE = PLAIN - {"errno", "stdio"}
SOCKETS = {"arpa/inet", "fcntl", "netdb", "netinet/in", "netinet/tcp", "poll", "sched", "sys/socket", "sys/time", "sys/types",
           "sys/uio", "sys/un", "unistd"}
# sys may include everything. pthread.h is for mutexes only: threads and fork handlers belong to sys.
MAY_INCLUDE_SYSTEM = {
    "base": PLAIN | {"arpa/inet"},  # whether a text is an address: no I/O
    "store": PLAIN,
    "metrics": PLAIN,
    "engine": ENGINE,
    "etcd": PLAIN | SOCKETS | {"pthread"},
    "zookeeper": PLAIN | SOCKETS | {"pthread"},
    "lanes": PLAIN | {"pthread"},
    "memory": PLAIN | {"pthread"},
    "net": PLAIN | SOCKETS | {"stdatomic", "pthread"},
    "redis": PLAIN | SOCKETS | {"stdatomic", "pthread"},
    "client": PLAIN | {"stdatomic", "pthread", "poll"},
    "watchdog": PLAIN | {"stdatomic", "pthread", "poll"},
    "api": PLAIN | {"stdatomic", "pthread"},
}
HIREDIS_FILE = "src/redis/codec/resp.c"
OPENSSL_FILES = {f"src/net/tls{rest}" for rest in (".c", "_context.c", "_peer.c", "_reason.c", "_inner.h", "_loaded.c")}
NGHTTP2_FILE = "src/etcd/grpc/inner.h"
HIREDIS_HEADERS = {"hiredis.h", "read.h", "sds.h", "alloc.h"}
THREAD_CALLS = re.compile(r"\b(pthread_create|pthread_atfork|clock_gettime|getrandom)\s*\(")

# What a server says is read at one place and checked there: a pattern, where it is looked for, which files may have it, and why.
BORDERS = [
    (r'#\s*include "(?:etcd/codec/)?wire\.h"', "src/etcd", {"codec/answers.c", "codec/reply.c", "codec/wire.c"}, "reads the bytes of an answer of etcd"),
    (r"_unpack\(|etcd\.pb-c\.h", "src/etcd", {"codec/inner.h"}, "reads by protobuf-c, which checks nothing"),
    (r"dli_grpc_answer\(|dli_grpc_asked\(|->came\b", "src/etcd", {"job.c", "grpc/grpc.h", "grpc/channel.c", "grpc/http2.c"}, "takes an answer that was not checked"),
    (r"(?:->|\.)said\b", "src/etcd", {"grpc/channel.c", "grpc/http2.c", "grpc/status.c"}, "sees a sentence of the server with its secrets"),
    (r"(?:->|\.)integer\b", "src/redis", {"codec/cluster_map.c", "codec/replies.c", "codec/resp.c", "codec/resp.h", "pipe/batch.c"},
     "reads a number of the server that was not checked"),
    (r"\b(?:strto[a-z]+|ato[a-z]+|sscanf)\(", "src/etcd", {"keys.c"}, "makes a number of text; dli_etcd_read_number checks it"),
]


def room_of(path: str) -> str:
    """redis/link/conn.h is in redis/link; api/lock.c is in api."""
    return path.rpartition("/")[0]


def offered(header: str) -> bool:
    """Whether other rooms may include a header."""
    room = room_of(header)
    return header not in PRIVATE_IN_BASE if room == "base" else header == f"{room}/{room.rpartition('/')[2]}.h"


def own_include_problem(room: str, name: str) -> str:
    """The problem with an include of ours in a file of this room; "" if there is none."""
    if name == "dlock.h":
        header, target = name, "abi"
    else:
        header = name if "/" in name else f"{room}/{name}"
        target = room_of(header)
    if target == room:
        return ""
    if target not in ROOMS.get(room, "").split():
        return f"{room} does not include {target} ({name})"
    return "" if target == "abi" or offered(header) else f"{name} is private to {target}"


def include_problems(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    found = []
    room = room_of(path.relative_to(root / "src").as_posix())
    floor = room.split("/")[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        place = f"{path.relative_to(root)}:{number}"
        if floor != "sys" and (call := THREAD_CALLS.search(line)):
            found.append(f"{place}: only src/sys calls {call[1]}")
        match = re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", line)
        if not match:
            continue
        bracket, name = match.groups()
        if "hiredis" in name or name in HIREDIS_HEADERS:
            if str(path.relative_to(root)) != HIREDIS_FILE:
                found.append(f"{place}: only {HIREDIS_FILE} includes hiredis")
        elif name.startswith("nghttp2/"):
            if str(path.relative_to(root)) != NGHTTP2_FILE:
                found.append(f"{place}: only {NGHTTP2_FILE} includes nghttp2")
        elif name.startswith("openssl/"):
            if str(path.relative_to(root)) not in OPENSSL_FILES:
                found.append(f"{place}: only {', '.join(sorted(OPENSSL_FILES))} include OpenSSL")
        elif bracket == '"':
            if problem := own_include_problem(room, name):
                found.append(f"{place}: {problem}")
        elif floor != "sys" and name.removesuffix(".h") not in MAY_INCLUDE_SYSTEM[floor]:
            found.append(f"{place}: {floor} does not include <{name}>")
    return found


def border_problems(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    found = []
    for pattern, folder, allowed, why in BORDERS:
        if not path.is_relative_to(root / folder) or str(path.relative_to(root / folder)) in allowed:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{path.relative_to(root)}:{number}: {why}")
    return found


def room_problems(root: pathlib.Path) -> list[str]:
    """Problems with the order of the rooms and with the number of files at the top of each folder."""
    order = list(ROOMS)
    found = [f"ROOMS: {room} includes {below}, which is not below it" for room, names in ROOMS.items()
             for below in names.split() if below not in order or order.index(below) <= order.index(room)]
    for folder in sorted({path.parent for path in tree.all_files(root)}):
        if folder.relative_to(root).parts[:1] not in (("src",), ("tools",), ("python-tests",), ("bench",), ("docs",)):
            continue
        files = [path for path in folder.iterdir() if path.is_file()]
        if len(files) > FOLDER_FILES:
            found.append(f"{folder.relative_to(root)}: {len(files)} files, at most {FOLDER_FILES}")
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


def command_problems(root: pathlib.Path) -> list[str]:
    found = []
    for path in tree.sources(root, ".c", ".h", folder=COMMAND):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", line)
            if match and match[1] == '"' and match[2] not in SHARED_WITH_COMMAND and not (root / COMMAND / match[2]).exists():
                found.append(f"{path.relative_to(root)}:{number}: the command does not include {match[2]}")
    return found


def problems(root: pathlib.Path) -> list[str]:
    found = room_problems(root) + command_problems(root)
    for path in tree.sources(root, ".c", ".h"):
        found += include_problems(root, path) + border_problems(root, path)
    listed = set(re.findall(r"'([\w/]+\.c)'", (root / "src/meson.build").read_text()))
    for path in tree.sources(root, ".c"):
        if str(path.relative_to(root / "src")) not in listed:
            found.append(f"{path.relative_to(root)}: not in src/meson.build")
    return found + export_problems(root)


if __name__ == "__main__":
    tree.main(problems)
