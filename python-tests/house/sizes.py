#!/usr/bin/env python3
"""Size budgets over src and tools, modelled on nng, Lua, liburing and wlroots."""
from __future__ import annotations

import pathlib

import tree

FILE_LINES = 600  # a file is one idea: this many lines may be needed to say it
FUNCTION_LINES, USUAL_FUNCTION_LINES = 60, 35  # one in ten may be longer than usual


def problems(root: pathlib.Path) -> list[str]:
    found = []
    for path in tree.sources(root, ".c", ".h", ".lua", ".py") + tree.sources(root, ".c", ".h", folder="tools"):
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES:
            found.append(f"{path.relative_to(root)}: {lines} lines, the budget is {FILE_LINES}")
    sizes = {}
    for function in tree.functions(root) + tree.functions(root, "tools"):
        place = f"{pathlib.Path(function['path']).relative_to(root)}:{function['line']}: {function['name']}"
        sizes[place] = function["end"] - function["line"] + 1
    found += [f"{place}: {size} lines, the budget is {FUNCTION_LINES}" for place, size in sizes.items()
              if size > FUNCTION_LINES]
    long = {place: size for place, size in sizes.items() if size > USUAL_FUNCTION_LINES}
    if len(long) * 10 > len(sizes):
        found.append(f"{len(long)} of {len(sizes)} functions have more than {USUAL_FUNCTION_LINES} lines, one in ten may:")
        found += [f"  {place}: {size}" for place, size in sorted(long.items(), key=lambda item: -item[1])]
    return found


if __name__ == "__main__":
    tree.main(problems)
