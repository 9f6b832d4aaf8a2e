"""abi/dlock.json: the contract of dlock.h as data, from which a binding can be generated. Called by gen.py.

docs/binding.md explains the fields. What the header says by its profile (names, types, order of parameters) becomes a field here by
rule. What it says in prose only stands in the tables below. test_contract.py compares nullability with the library.
"""
from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gen import Function, Header

# The unit of a number, by the name of its parameter without ret_. Names in _ms and _size are milliseconds and bytes.
UNITS = {
    "owner": "owner number", "token": "fencing token", "tag": "tag of the caller", "cursor": "cursor", "index": "place from 0",
    "size": "bytes", "kind": "DLOCK_KIND_*", "status": "DLOCK_*", "finding": "DLOCK_FINDING_*", "state": "DLOCK_STATE_*",
    "fd": "file descriptor", "count": "number", "permits": "permits", "available": "permits", "drained": "permits",
    "reclaimed": "permits", "by": "number", "attempt": "attempt from 1", "value": "milliseconds: see the call",
}  # fmt: skip
# What a returned number counts or stands for, where the type does not say it.
RESULTS = {
    "dlock_version": "major * 65536 + minor * 256 + patch", "dlock_supports": "0 or 1", "dlock_status_retryable": "0 or 1",
    "dlock_error_retryable": "0 or 1", "dlock_status_count": "number", "dlock_option_count": "number", "dlock_lock_id": "id of a lock",
    "dlock_event_type": "DLOCK_EVENT_*", "dlock_txn_pause_ms": "milliseconds",
}  # fmt: skip
# Parameters that take -1, and what that means.
MINUS_ONE = {"wait_ms": "without limit", "timeout_ms": "without limit, or the timeouts of the client: see the call"}
# Events other than DLOCK_EVENT_DONE that end submitted and begun calls.
EVENTS = {
    "acquire": ["DLOCK_EVENT_ACQUIRED", "DLOCK_EVENT_ACQUIRE_FAILED"], "release": ["DLOCK_EVENT_RELEASED", "DLOCK_EVENT_RELEASE_FAILED"],
    "close": [],
}  # fmt: skip


class Missing(Exception):
    """A parameter or result that no rule and no table describes."""


def sentence(comment: str) -> str:
    """The words of a comment up to "Threads:", as paragraphs."""
    lines = [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in comment.strip().removeprefix("/*").removesuffix("*/").strip().splitlines()]
    text = "\n".join(lines).partition("Threads: ")[0].strip()
    return "\n\n".join(re.sub(r"\s+", " ", part) for part in text.split("\n\n"))


def says(function: Function) -> dict[str, Any]:
    text, _, errors = sentence(function.comment).partition("Errors: ")
    threads = re.search(r"Threads: (.*?)\.\s+(?:\*\s+)?Blocks:", function.comment, re.S)
    return {
        "says": text.strip(),
        "errors": list(dict.fromkeys(re.findall(r"DLOCK_[A-Z_]+\*?", errors))),
        "errors_text": errors.strip(),
        "threads": re.sub(r"\s+\*?\s*", " ", threads[1]) if threads else "",
        "blocks": re.sub(r" \* ", " ", function.blocks),
    }


def length_of(params: list[tuple[str, str]], place: int) -> str | None:
    """The parameter with the size of what the one at this place points to: the next one, if it is such a size."""
    name = params[place][1]
    after = params[place + 1][1] if place + 1 < len(params) and params[place + 1][0] == "size_t" else ""
    return after if after in (f"{name}_size", "size", "count") else None


def unit(function: Function, name: str) -> str:
    plain = name.removeprefix("ret_")
    if plain.endswith("_ms"):
        return "milliseconds"
    if plain.endswith("_size"):
        return "bytes"
    if plain not in UNITS:
        raise Missing(f"{function.name}: parameter {name}: gen_json.py has no unit for it")
    return UNITS[plain]


def opaque_in(header: Header, kind: str) -> str:
    base = kind.removeprefix("const ").rstrip(" *")
    return base if base in header.opaque else ""


def parameter(header: Header, function: Function, place: int) -> dict[str, Any]:
    kind, name = function.params[place]
    base, length = opaque_in(header, kind), length_of(function.params, place)
    about: dict[str, Any] = {"name": name, "type": kind, "direction": "in"}
    if kind.endswith("**") and name.startswith("ret_"):
        about |= {"direction": "out", "is": "handle", "ownership": f"caller, frees it with {base}_free", "nullable": False}
    elif kind.endswith("**"):
        about |= {"is": "array of handles", "length": length, "ownership": "borrowed for the call", "nullable": False}
    elif base:
        about |= handle(function, place, base)
    elif not kind.endswith("*"):
        about |= {"is": "number", "unit": unit(function, name)}
        if name in MINUS_ONE:
            about["minus_one"] = MINUS_ONE[name]
    elif name.startswith("ret_"):
        size = name == "ret_size" and function.name == "dlock_lock_export_grant"
        about |= {"direction": "out", "is": "number", "unit": unit(function, name), "ownership": "caller", "nullable": not size}
    elif kind.startswith("const "):
        what = "bytes" if length else "text"
        about |= {"is": what, "length": length, "ownership": "copied before the call returns", "nullable": False}
    else:
        what = "array of numbers" if name == "values" else "text" if kind == "char *" else "bytes"
        empty = f"{name} may be NULL when {length} is 0" in sentence(function.comment)
        about |= {"direction": "out", "is": what, "length": length, "ownership": "caller", "nullable": f"when {length} is 0" if empty else False}
    return about


def handle(function: Function, place: int, base: str) -> dict[str, Any]:
    name = function.params[place][1]
    if function.name == base + "_free":
        return {"is": "handle", "ownership": "given back", "nullable": True}
    if name == "reterr":
        return {"direction": "out", "is": "box", "ownership": "borrowed for the call", "nullable": True}
    if name == "event" and place:
        return {"direction": "out", "is": "box", "ownership": "borrowed for the call", "nullable": False}
    optional = place > 0 if base == "dlock_options" else function.returns != "dlock_status"
    return {"is": "handle", "ownership": "borrowed for the call", "nullable": optional}


def result(header: Header, function: Function) -> dict[str, Any]:
    kind, base = function.returns, opaque_in(header, function.returns)
    if kind == "void":
        return {"type": kind, "is": "nothing"}
    if kind == "dlock_status":  # without a box the number is a value, not the outcome of the call
        outcome = any(name == "reterr" for _, name in function.params)
        return {"type": kind, "is": "status"} if outcome else {"type": kind, "is": "number", "unit": "DLOCK_*"}
    if base:
        return {"type": kind, "is": "handle", "ownership": f"caller, frees it with {base}_free", "nullable": True}
    if kind == "const char *":
        box = bool(function.params) and opaque_in(header, function.params[0][0])
        ownership = "the box, until it is filled again or freed" if box else "constant"
        return {"type": kind, "is": "text", "ownership": ownership, "nullable": function.name.startswith("dlock_option_")}
    if function.name not in RESULTS:
        raise Missing(f"{function.name}: gen_json.py has no unit for its result")
    return {"type": kind, "is": "number", "unit": RESULTS[function.name]}


def forms(header: Header, function: Function) -> dict[str, Any]:
    """The other forms of a call, and the events that end a submitted one."""
    found: dict[str, Any] = {}
    verb = re.sub(r"_(submit|begin)_", "_", function.name)
    for form in ("submit", "begin"):
        other = re.sub(r"^(dlock_[a-z]+)_", rf"\1_{form}_", verb)
        if other in header.functions and other != function.name:
            found[form] = other
    if verb != function.name:
        found["blocking"] = verb
        found["events"] = EVENTS.get(verb.removeprefix("dlock_lock_").removeprefix("dlock_client_"), ["DLOCK_EVENT_DONE"])
    return found


def groups(header: Header) -> list[dict[str, Any]]:
    found = []
    for comment, names in header.groups:
        prefix = "DLOCK_" if "DLOCK_OK" in names else re.match(r"DLOCK_[A-Z]+_", names[0])[0]  # type: ignore[index]
        constants = [{"name": name, "value": header.constants[name]} for name in names]
        found.append({"prefix": prefix, "says": sentence(comment), "constants": constants})
    return found


def statuses(header: Header, rows: dict[str, tuple[bool, str]]) -> list[dict[str, Any]]:
    found = []
    for name in header.statuses:
        value = header.constants["DLOCK_" + name]
        outcome = "done" if value == 0 else "expected" if value > 0 else "failure"
        retryable, text = rows[name]
        found.append({"name": name, "value": value, "outcome": outcome, "retryable": retryable, "text": text})
    return found


def read_rows(code: str) -> dict[str, tuple[bool, str]]:
    """Of each status, from the table in src/base/error.c: whether it is retryable, and its sentence."""
    found = re.findall(r'\bROW\((\w+),\s*([01]),((?:\s*"[^"\\\n]*")+)\),', code)
    return {name: (flag == "1", "".join(re.findall(r'"(.*?)"', literals))) for name, flag, literals in found}


def contract(header: Header, nodes: dict[str, str], soname: str, rows: dict[str, tuple[bool, str]], text: str) -> dict[str, Any]:
    first = text.index("/*")
    opaque = [{"name": name, "free": f"{name}_free"} for name in header.opaque]
    functions = [
        {
            "name": function.name, "since": function.since, "node": nodes[function.name], **says(function),
            "returns": result(header, function),
            "params": [parameter(header, function, place) for place in range(len(function.params))],
            **forms(header, function),
        }
        for function in header.functions.values()
    ]  # fmt: skip
    return {
        "format": 1, "library": soname, "header": "dlock.h", "pkg_config": "dlock",
        "says": sentence(text[first : text.index("*/")]),
        "integers": [{"name": name, "type": base} for name, base in header.integers.items()],
        "opaque": opaque, "statuses": statuses(header, rows), "constants": groups(header), "functions": functions,
    }  # fmt: skip


def dlock_json(whole: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {spread(value)}" for key, value in whole.items()) + "\n}\n"


def spread(value: Any, depth: int = 1) -> str:
    """JSON with one item of a list of objects on a line; a function has its parameters on lines of their own."""
    margin = "\n" + " " * (depth + 1)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(margin + spread(one, depth + 1) for one in value) + "\n" + " " * depth + "]"
    if isinstance(value, dict) and any(isinstance(one, list) and one and isinstance(one[0], dict) for one in value.values()):
        return "{" + ",".join(margin + json.dumps(key) + ": " + spread(one, depth + 1) for key, one in value.items()) + "\n" + " " * depth + "}"
    return json.dumps(value, ensure_ascii=False)
