"""abi/dlock.json against the library: a binding is made of it alone, and NULL is taken where it says so, and refused elsewhere."""
from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from harness.build import LIBRARY, ROOT
from harness.server import Server

sys.path.insert(0, str(ROOT / "abi"))
import gen  # noqa: E402
import gen_json  # noqa: E402

pytestmark = pytest.mark.house
CONTRACT = json.loads((ROOT / "abi/dlock.json").read_text())
FUNCTIONS = {function["name"]: function for function in CONTRACT["functions"]}
INTEGERS = {one["name"]: one["type"] for one in CONTRACT["integers"]}
VALUE = {name: value for group in CONTRACT["constants"] for name, value in ((one["name"], one["value"]) for one in group["constants"])}
# Arguments that a call accepts, by the name of the parameter.
NUMBERS = {
    "owner": 1, "wait_ms": 0, "timeout_ms": 2000, "tag": 7, "cursor": 0, "index": 0, "size": 4096, "count": 1, "permits": 1, "by": 1,
    "lease_ms": 5000, "ttl_ms": 5000, "silent_ms": 0, "value": 0, "kind": VALUE["DLOCK_KIND_MUTEX"], "status": 1, "finding": 1, "attempt": 1,
}  # fmt: skip
TEXTS = {"feature": b"mutex", "what": b"heal", "name": b"lease_ms", "value": b"5000", "key": b"k", "grant": b"g"}
REFUSALS = {VALUE["DLOCK_" + name] for name in ("INVALID_ARGUMENT", "INVALID_NAME", "INVALID_GRANT", "BUFFER_TOO_SMALL")}
KINDS = {"semaphore": "DLOCK_KIND_PERMIT_SEMAPHORE", "latch": "DLOCK_KIND_LATCH"}


def ctype(kind: str) -> Any:
    """A pointer of any type is a void pointer here; what it points to comes from the contract."""
    if kind == "void":
        return None
    if kind == "const char *":
        return ctypes.c_char_p
    if kind.endswith("*"):
        return ctypes.c_void_p
    return ctypes.c_size_t if kind == "size_t" else getattr(ctypes, "c_" + INTEGERS.get(kind, kind).removesuffix("_t"))


def loaded() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    for name, function in FUNCTIONS.items():
        call = getattr(library, name)
        call.restype, call.argtypes = ctype(function["returns"]["type"]), [ctype(one["type"]) for one in function["params"]]
    return library


class World:
    """Handles for one function: a client of its own with a lock, boxes, and options."""

    def __init__(self, library: ctypes.CDLL, url: str, name: str) -> None:
        self.library, self.made = library, ctypes.c_void_p()
        self.handles = {f"dlock_{box}": getattr(library, f"dlock_{box}_new")() for box in ("options", "error", "event")}
        assert library.dlock_client_open(url.encode(), None, ctypes.byref(self.made), None) == 0
        self.handles["dlock_client"] = client = self.made.value
        kind = VALUE[KINDS.get(name.split("_")[1], "DLOCK_KIND_MUTEX")]
        assert library.dlock_lock_new(client, kind, b"lock", 4, None, ctypes.byref(self.made), None) == 0
        self.handles["dlock_lock"] = self.made.value
        assert library.dlock_txn_new(client, ctypes.byref(self.made), None) == 0
        self.handles["dlock_txn"] = self.made.value
        self.kept: list[Any] = []

    def argument(self, url: str, name: str, one: dict[str, Any]) -> Any:
        kind = one["type"].removeprefix("const ").rstrip(" *")
        if one["is"] == "number" and one["direction"] == "in":
            return NUMBERS.get(one["name"], 1)
        if one["is"] in ("handle", "box") and "**" not in one["type"]:
            return self.handles[kind]
        if one["is"] == "array of handles":
            self.kept.append((ctypes.c_void_p * 1)(self.handles[kind]))
        elif one["direction"] == "in":
            self.kept.append(ctypes.create_string_buffer(url.encode() if one["name"] == "url" else TEXTS[one["name"]]))
        else:
            self.kept.append(ctypes.create_string_buffer(8 * 4096))
        return ctypes.cast(self.kept[-1], ctype(one["type"]))

    def __call__(self, url: str, name: str, *nulls: str) -> int:
        """Call with NULL for these parameters, or 0 for a size."""
        params = FUNCTIONS[name]["params"]
        words = [(0 if one["is"] == "number" and one["direction"] == "in" else None) if one["name"] in nulls else self.argument(url, name, one) for one in params]
        return getattr(self.library, name)(*words) or 0


def refusals(library: ctypes.CDLL, url: str, name: str) -> list[str]:
    """What the contract says wrongly about NULL."""
    wrong = []
    function = FUNCTIONS[name]
    judged = function["returns"]["is"] == "status"
    if not name.endswith("_free") and World(library, url, name)(url, name) == VALUE["DLOCK_INVALID_ARGUMENT"]:
        wrong.append(f"{name}: refuses what this test takes for good arguments")
    for one in function["params"]:
        if "nullable" not in one or (one["nullable"] is False and not judged):
            continue
        status = World(library, url, name)(url, name, one["name"])
        if judged and (status == VALUE["DLOCK_INVALID_ARGUMENT"] if one["nullable"] is True else status not in REFUSALS):
            wrong.append(f"{name}: {one['name']} is nullable: {one['nullable']}, but NULL is answered with {status}")
        if isinstance(one["nullable"], str) and World(library, url, name)(url, name, one["name"], one["length"]) == VALUE["DLOCK_INVALID_ARGUMENT"]:
            wrong.append(f"{name}: {one['name']} is nullable {one['nullable']}, but is refused then")
    return wrong


def test_null_is_taken_and_refused_as_it_says(redis_server: Server) -> None:
    """In a process of its own, which a wrong word would end."""
    command = [sys.executable, __file__, redis_server.unix_url]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "python-tests", env={"PYTHONPATH": str(ROOT / "python-tests"), "DLOCK_LIBRARY": str(LIBRARY)})
    assert (done.returncode, done.stdout) == (0, f"{len(FUNCTIONS)} functions\n"), done.stdout + done.stderr


def test_it_is_whole() -> None:
    header = gen.read_header((ROOT / "abi/dlock.h").read_text())
    assert list(FUNCTIONS) == list(header.functions) and VALUE == header.constants
    assert {"DLOCK_" + one["name"]: one["value"] for one in CONTRACT["statuses"]}.items() <= VALUE.items()
    for name, function in FUNCTIONS.items():
        assert len(function["says"]) > 10 and function["threads"] and function["blocks"], name
        assert [(one["type"], one["name"]) for one in function["params"]] == header.functions[name].params
        for one in function["params"]:
            assert one["is"] != "number" or one["unit"], (name, one)
            assert ("nullable" in one) == ("ownership" in one) == ("*" in one["type"]), (name, one)
            assert one.get("length") in {None, *(other["name"] for other in function["params"])}
        for error in function["errors"]:
            assert error in VALUE or error.endswith("*") and any(known.startswith(error[:-1]) for known in VALUE), (name, error)


def test_statuses_are_those_of_the_library() -> None:
    library = loaded()
    assert library.dlock_status_count() == len(CONTRACT["statuses"])
    for one in CONTRACT["statuses"]:
        assert library.dlock_status_name(one["value"]).decode() == one["name"]
        assert library.dlock_status_text(one["value"]).decode() == one["text"]
        assert library.dlock_status_retryable(one["value"]) == one["retryable"]


def test_submitted_forms_are_named() -> None:
    """Each submitted call names its blocking form, the other way round too, and the events that end it."""
    for name, function in FUNCTIONS.items():
        if re.search(r"_(submit|begin)_", name):
            form = "submit" if "_submit_" in name else "begin"
            assert FUNCTIONS[function["blocking"]][form] == name and set(function["events"]) <= VALUE.keys()


@pytest.mark.parametrize("call", [
    "dlock_status dlock_new(dlock_client *client, int64_t colour, dlock_error *reterr);", "int64_t dlock_new(dlock_client *client);",
])  # fmt: skip
def test_what_has_no_unit_is_refused(call: str) -> None:
    comment = "/*\n * New.\n * Threads: any. Blocks: never. Since: 0.1\n */\nDLOCK_API\n"
    end = "#ifdef __cplusplus\n}\n#endif\n"
    text = (ROOT / "abi/dlock.h").read_text().replace(end, comment + call + "\n\n" + end)
    header = gen.read_header(text)
    rows = gen_json.read_rows((ROOT / "src/base/error.c").read_text())
    with pytest.raises(gen_json.Missing, match="dlock_new: .*has no unit"):
        gen_json.contract(header, {name: "DLOCK_0.1" for name in header.functions}, gen.SONAME, rows, text)


if __name__ == "__main__":
    found = [line for name in FUNCTIONS for line in refusals(loaded(), sys.argv[1], name)]
    print(*found, f"{len(FUNCTIONS)} functions", sep="\n")
