"""docs/options.md from the library's own table: python3 python-tests/harness/options.py LIBRARY > docs/options.md"""
from __future__ import annotations

import ctypes
import sys


def options_page(library: ctypes.CDLL) -> str:
    columns = [getattr(library, f"dlock_option_{name}") for name in ("name", "type", "default", "help")]
    for column in columns:
        column.argtypes, column.restype = [ctypes.c_size_t], ctypes.c_char_p
    library.dlock_option_count.restype = ctypes.c_size_t
    lines = [
        "# Options",
        "",
        "Set by `dlock_options_set`, in the query part of a URL, or as keyword arguments in Python. A lock's options win over",
        "its client's, and those over the URL's. Written by python-tests/harness/options.py.",
        "",
        "| name | accepts | default | |",
        "| --- | --- | --- | --- |",
    ]
    for index in range(library.dlock_option_count()):
        name, kind, default, text = (column(index).decode() for column in columns)
        lines.append(f"| `{name}` | {kind} | {f'`{default}`' if default else ''} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(options_page(ctypes.CDLL(sys.argv[1])), end="")
