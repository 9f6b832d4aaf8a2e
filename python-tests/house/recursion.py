#!/usr/bin/env python3
"""Functions of src that call each other in a circle. Threads of the library have small stacks, so what bounds each circle is said here.

Calls by name are seen, over all files. Calls through pointers are not: a callback that runs within the call that it answers is a matter of
the contracts in the headers.
"""
from __future__ import annotations

import collections
import pathlib
import re

import tree

BOUNDS = {
    frozenset({"dli_entry_unref"}): "a hold drops its parent, which has none; slots before it are a loop",
    frozenset({
        "dli_entry_unlock", "dli_entry_unlock_only", "release_both", "tell", "dli_entry_handle", "dli_hold_each", "dli_hold_each_only",
        "dli_entry_visit_only", "dli_multi_unref", "dli_run_end", "end", "end_cut_off", "read_node", "dli_waitlist_visit", "recheck",
    }): "dli_run_end: within one that ends multi-locks, the next one only puts its own into the list",
    frozenset({"have_paths"}): "the parts of a transaction are no transactions",
    frozenset({"next_row", "watch_unsure"}): "PASSES, for each job",
    frozenset({"find_session", "have_session"}): "dli_etcd_enter answers at once only with a session that is not over",
}  # fmt: skip

Node = tuple[str, str]  # a file and a function in it


def bare(text: str) -> str:
    """Without comments and texts, line by line."""
    text = re.sub(r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment.group()), text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def graph(root: pathlib.Path) -> dict[Node, set[Node]]:
    """Who calls whom. A static function hides others of its name in its file."""
    functions = tree.functions(root)
    lines = {path: bare(pathlib.Path(path).read_text()).splitlines() for path in {function["path"] for function in functions}}
    named: dict[str, list[dict]] = collections.defaultdict(list)
    for function in functions:
        named[function["name"]].append(function)
    calls: dict[Node, set[Node]] = {}
    for function in functions:
        body = "\n".join(lines[function["path"]][function["line"] - 1 : function["end"]]).partition("{")[2]
        found = calls.setdefault((function["path"], function["name"]), set())
        for called in set(re.findall(r"(?<![.>\w])\w+(?=\()", body)):
            known = named.get(called, [])
            near = [one for one in known if one["path"] == function["path"]]
            far = [one for one in known if not one.get("file") or one["path"].endswith(".h")]
            found.update((one["path"], called) for one in near or far)
    return calls


def circles(calls: dict[Node, set[Node]]) -> list[set[Node]]:
    """The strongly connected parts in which a function can come back to itself (Kosaraju)."""
    order: list[Node] = []
    seen: set[Node] = set()
    for start in calls:
        path = [(start, iter(calls[start]))] if start not in seen else []
        seen.add(start)
        while path:
            node, rest = path[-1]
            following = next((one for one in rest if one not in seen), None)
            if following is None:
                order.append(path.pop()[0])
                continue
            seen.add(following)
            path.append((following, iter(calls.get(following, ()))))
    callers: dict[Node, set[Node]] = collections.defaultdict(set)
    for node, called in calls.items():
        for one in called:
            callers[one].add(node)
    found, done = [], set()
    for start in reversed(order):
        part, left = set(), [start]
        while left:
            node = left.pop()
            if node not in done:
                done.add(node)
                part.add(node)
                left += callers[node]
        if len(part) > 1 or any(node in calls.get(node, ()) for node in part):
            found.append(part)
    return found


def problems(root: pathlib.Path) -> list[str]:
    found, known = [], set()
    for part in circles(graph(root)):
        names = frozenset(name for _, name in part)
        known.add(names)
        if names not in BOUNDS:
            path, name = min(part)
            place = f"{pathlib.Path(path).relative_to(root)}: {name}"
            found.append(f"{place} calls itself, and nobody has said what bounds that: {', '.join(sorted(names))}")
    if (root / "src/client/entry.c").exists():
        found += [f"python-tests/house/recursion.py: no such circle any more: {', '.join(sorted(names))}" for names in BOUNDS if names not in known]
    return found


if __name__ == "__main__":
    tree.main(problems)
