"""What gen.py writes for Node.js, from dlock.json alone: the calls of the addon (src/calls.c), the numbers (lib/numbers.js), the requests to
the server about a lock (lib/requests.js), and the types of both (lib/requests.d.ts).

A call of the addon has the parameters of the C function that carry something: handles, numbers, and bytes as a Uint8Array. The boxes
are those of the instance. It returns the status, or what the function returns; numbers that the function writes go to addon.out in their order.
"""
from __future__ import annotations

import re
import textwrap
from typing import Any

from python_names import CLASSES, DEFAULTS, VERBS

Json = dict[str, Any]
WRITTEN = "Written by abi/gen.py from abi/dlock.json: do not edit."
BOXES = {"dlock_error": "c.own->error", "dlock_event": "c.own->event"}
GROUPS = {  # groups of constants that become objects: their names
    "DLOCK_KIND_": "KIND", "DLOCK_STATE_": "STATE", "DLOCK_CAUSE_": "CAUSE", "DLOCK_EVENT_": "EVENT", "DLOCK_FIELD_": "FIELD",
    "DLOCK_STAT_": "STAT", "DLOCK_SEVERITY_": "SEVERITY",
}  # fmt: skip
UNIONS = {"DLOCK_STATE_": "State", "DLOCK_CAUSE_": "Cause"}
# Mixins of requests.js: by the prefix of the calls, and of those with an owner.
MIXINS = {"lock": "Requests", "semaphore": "Permits", "latch": "Counts", "owner": "Owned"}
MIXIN_SAYS = {**{name: says for name, (_, says) in CLASSES.items()}, "owner": "Methods of owners."}


def base_of(one: Json) -> str:
    return one["type"].removeprefix("const ").rstrip(" *")


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


# ---- src/calls.c


def wanted(function: Json) -> bool:
    """What never blocks. Boxes belong to the instance, and dlock_client_open has a form of its own in addon.c."""
    boxed = any(function["name"] in (f"{base}_new", f"{base}_free") for base in BOXES)
    return function["blocks"] == "never" and not boxed and not function["name"].endswith("_free")


def calls_c(whole: Json) -> str:
    functions = [function for function in whole["functions"] if wanted(function)]
    made = sorted({base_of(one) for function in functions for one in [*function["params"], function["returns"]] if gives_handle(one)})
    lines = [f"/* calls.c: the calls of dlock.h that never block, for JavaScript. {WRITTEN} */", "/* clang-format off */", '#include "addon.h"', ""]
    for base in made:
        lines += [f"static void free_{base}(napi_env env, void *data, void *hint)", "{", "    (void)env;", "    (void)hint;", f"    {base}_free(data);", "}", ""]
    for function in functions:
        lines += call_c(function)
    lines += ["const export_row calls[] = {"]
    lines += [f'    {{"{short(function)}", js_{short(function)}}},' for function in functions]
    return "\n".join([*lines, "};", "", "const size_t calls_count = sizeof calls / sizeof *calls;", ""])


def short(function: Json) -> str:
    return function["name"].removeprefix("dlock_")


def gives_handle(one: Json) -> bool:
    return one["is"] == "handle" and (one.get("direction") == "out" or "name" not in one)


def call_c(function: Json) -> list[str]:
    before: list[str] = []
    given: list[str] = []
    after: list[str] = []
    lengths = {one["length"]: one for one in function["params"] if one.get("length")}
    place, out, made = 0, 0, ""
    for one in function["params"]:
        name, base = one["name"], base_of(one)
        if base in BOXES:
            given.append(BOXES[base])
        elif name in lengths:
            of = lengths[name]
            given.append("OUTS" if of["is"] == "array of numbers" else f"{of['name']}_count" if of["is"] == "array of handles" else f"size(&c, {place - 1})")
        elif one["is"] == "array of handles":
            before.append(f"size_t {name}_count = members(&c, {place});")
            given.append(f"({base} **)c.members")
            place += 1
        elif one["is"] == "array of numbers":
            before.append(f"int64_t {name}[OUTS] = {{0}};")
            given.append(name)
            after.append(f"outs(&c, {name}, OUTS);")
            out = -1  # they take all places
        elif one["direction"] == "out" and one["is"] == "handle":
            before.append(f"{base} *{name} = NULL;")
            given.append(f"&{name}")
            made = f"external(&c, status, {name}, free_{base})"
        elif one["direction"] == "out" and one["is"] == "number" and out < 0:
            given.append("NULL")
        elif one["direction"] == "out" and one["is"] == "number":
            before.append(f"{base} {name} = 0;")
            given.append(f"&{name}")
            after.append(f"c.own->out[{out}] = (double){name};")
            out += 1
        else:
            how = {"handle": "handle", "number": "number"}.get(one["is"], "bytes")
            cast = f"({one['type']})" if how == "number" and one["type"] != "int64_t" else ""
            given.append(f"{cast}{how}(&c, {place})")
            place += 1
    return [*c_frame(function, before, f"{function['name']}({', '.join(given)})", after, made), ""]


def c_frame(function: Json, before: list[str], called: str, after: list[str], made: str) -> list[str]:
    returns, name = function["returns"], short(function)
    if returns["is"] == "status":
        body = [*before, f"dlock_status status = {called};", "", *after, f"return {made or 'whole(&c, status)'};"]
    elif returns["is"] == "handle":
        body = ["", f"return external(&c, DLOCK_OUT_OF_MEMORY, {called}, free_{base_of(returns)});"]
    elif returns["is"] == "text":
        body = ["", f"return text(&c, {called});"]
    elif returns["is"] == "nothing":
        body = ["", f"{called};", "return nothing(&c);"]
    else:
        body = ["", f"return whole(&c, {called});"]
    head = [f"static napi_value js_{name}(napi_env env, napi_callback_info info)", "{", "    call c = begin(env, info);"]
    return [*head, *[f"    {line}" if line else "" for line in body], "}"]


# ---- lib/numbers.js


def numbers_js(whole: Json) -> str:
    lines = [f"// The numbers of dlock.h. {WRITTEN}", '"use strict";', ""]
    lines += ["const STATUS = {", *[f"  {one['name']}: {one['value']}," for one in whole["statuses"]], "};", ""]
    for group in whole["constants"]:
        if group["prefix"] in GROUPS:
            pairs = [(one["name"].removeprefix(group["prefix"]), one["value"]) for one in group["constants"]]
            lines += [f"const {GROUPS[group['prefix']]} = {{", *[f"  {name}: {value}," for name, value in pairs], "};", ""]
    return "\n".join([*lines, f"module.exports = {{ STATUS, {', '.join(GROUPS.values())} }};", ""])


# ---- lib/requests.js and its types


def requests(whole: Json) -> dict[str, list[tuple[Json, Json, str, str, str]]]:
    """By mixin: the submitted call, the blocking one, the name of the method, the status that is false, and what it does."""
    functions = {function["name"]: function for function in whole["functions"]}
    found: dict[str, list[tuple[Json, Json, str, str, str]]] = {mixin: [] for mixin in MIXINS}
    for verb, (public, no, says) in VERBS.items():
        if public and public != "adopt_grant":
            function = functions["dlock_" + verb]
            owned = any(one["name"] == "owner" for one in function["params"])
            says = re.sub(r"\bFalse\b", "false", says.strip().replace(" seconds", " milliseconds"))
            for name in re.findall(r"\b[a-z]+_[a-z]+\b", says):
                says = says.replace(name, camel(name)) if name in {one[0] for one in VERBS.values()} else says
            found["owner" if owned else verb.split("_")[0]].append((functions[function["submit"]], function, camel(public), no, says))
    return found


def arguments(submit: Json, owned: bool) -> list[tuple[str, str, str]]:
    """Parameters of a method: name, the value for the addon, default."""
    found = []
    for one in submit["params"][1:]:
        if one["name"] == "owner" or one["name"] == "tag" or one["is"] != "number":
            continue
        name = one["name"].removesuffix("_ms")
        value = f"milliseconds({name})" if one["name"].endswith("_ms") else f"whole({name})"
        default = DEFAULTS.get((short(submit).replace("latch_submit_", ""), name), "")
        found.append((name, value, str(default)))
    return found


def result_of(blocking: Json, no: str) -> tuple[str, str]:
    """What reads the answer, and its type."""
    outs = [one["is"] for one in blocking["params"] if one["direction"] == "out" and one["name"] != "reterr"]
    if outs:
        return {"box": ("inspection", "Inspection"), "number": ("value", "number")}[outs[0]]
    return ("nothing", "boolean") if no else ("nothing", "void")


def requests_js(whole: Json) -> str:
    lines = [f"// Requests to the server about a lock. {WRITTEN}", '"use strict";', ""]
    lines += ['const { addon } = require("./addon.js");', 'const { inspection, milliseconds, nothing, value, whole } = require("./values.js");',
              'const { STATUS } = require("./numbers.js");', ""]  # fmt: skip
    for mixin, rows in requests(whole).items():
        lines += [f"// {MIXIN_SAYS[mixin]}", f"const {MIXINS[mixin]} = (Base) =>", "  class extends Base {"]
        for submit, blocking, name, no, _ in rows:
            owned = mixin == "owner"
            parameters = arguments(submit, owned)
            head = ", ".join(f"{one} = {default}" if default else one for one, _, default in parameters)
            numbers = [f"const {one}Number = {how};" for one, how, _ in parameters]
            given = [*(["this.lock._handle", "this.number"] if owned else ["this._handle"]), *[f"{one}Number" for one, _, _ in parameters], "tag"]
            lines += [f"    async {name}({head}) {{", *[f"      {line}" for line in numbers]]
            call = f"(tag) => addon.{short(submit)}({', '.join(given)})"
            more = [result_of(blocking, no)[0], *([f"STATUS.{no}"] if no else [])]
            lines += [f"      return this._ask({call}, {', '.join(more)});", "    }", ""]
        lines[-1:] = ["  };", ""]
    return "\n".join([*lines, f"module.exports = {{ {', '.join(MIXINS.values())} }};", ""])


def requests_dts(whole: Json) -> str:
    lines = [f"// Types of requests.js and numbers.js. {WRITTEN}", 'import type { Inspection } from "./index.js";', ""]
    for mixin, rows in requests(whole).items():
        lines += [f"/** {MIXIN_SAYS[mixin]} */", f"export interface {MIXINS[mixin]} {{"]
        for submit, blocking, name, no, says in rows:
            lines += doc(says)
            given = ", ".join(f"{one}{'?' if default else ''}: number" for one, _, default in arguments(submit, mixin == "owner"))
            lines.append(f"  {name}({given}): Promise<{result_of(blocking, no)[1]}>;")
        lines += ["}", ""]
    lines += ["/** The names of statuses: `code` of a DlockError. A newer library may have more. */", "export type Code ="]
    lines += [f'  | "{one["name"]}"' for one in whole["statuses"] if one["value"]] + ["  | (string & {});", ""]
    for group in whole["constants"]:
        names = [one["name"].removeprefix(group["prefix"]) for one in group["constants"]]
        if group["prefix"] in UNIONS:
            lines += [f"export type {UNIONS[group['prefix']]} = " + " | ".join(f'"{name}"' for name in names) + ";", ""]
        if group["prefix"] == "DLOCK_STAT_":
            lines += ["/** The counters of a client. */", "export interface Stats {"]
            lines += [f"  {camel(name.lower())}: number;" for name in names if name != "COUNT"] + ["}", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def doc(says: str) -> list[str]:
    return ["  /**", *[f"   * {line}" for line in textwrap.wrap(says, 100)], "   */"]
