"""What gen.py writes for Rust, from dlock.json alone: the crate dlock-sys, and of the crate dlock the safe calls (raw.rs), the numbers
(numbers.rs) and the requests to the server about a lock (requests.rs).

raw.rs is the only file with unsafe code. A handle is a struct that frees it; a call is a method of the handle that is its first
parameter, and writes its error into the box of the calling thread. ret_ parameters become results.
"""
from __future__ import annotations

import re
import textwrap
from typing import Any, Iterable

from python_names import VERBS

Json = dict[str, Any]
WRITTEN = "// Written by abi/gen.py from abi/dlock.json: do not edit.\n"
SYS_HEAD = f"""\
{WRITTEN}
//! The C API of libdlock, as it stands in `dlock.h`: nothing is added. The crate `dlock` has a safe one.
#![no_std]
#![allow(non_camel_case_types)]

extern crate std;
use std::os::raw::c_char;
"""
RAW_HEAD = f"""\
{WRITTEN}
//! The calls of the library as safe methods of handles. All unsafe code of the crate is here.
use crate::Error;
use dlock_sys as sys;
use std::ffi::{{CStr, CString}};
use std::os::raw::c_char;
use std::os::unix::io::{{BorrowedFd, OwnedFd}};
use std::ptr::{{null, null_mut, NonNull}};

thread_local! {{
    static BOX: ErrorBox = ErrorBox(unsafe {{ sys::dlock_error_new() }});
}}

/// The error box of a thread; null without memory, which every call accepts.
struct ErrorBox(*mut sys::dlock_error);

impl Drop for ErrorBox {{
    fn drop(&mut self) {{
        unsafe {{ sys::dlock_error_free(self.0) }}
    }}
}}

/// Makes a call with the box of this thread. A thread that ends has none any more.
fn call(f: impl FnOnce(*mut sys::dlock_error) -> i32) -> Result<(), Error> {{
    let mut f = Some(f);
    let mut run = |b: *mut sys::dlock_error| match f.take().map_or(0, |f| f(b)) {{
        sys::DLOCK_OK => Ok(()),
        status => Err(Error::new(status, if b.is_null() {{ "" }} else {{ unsafe {{ text(sys::dlock_error_message(b)) }} }})),
    }};
    match BOX.try_with(|b| b.0) {{
        Ok(b) => run(b),
        Err(_) => run(null_mut()),
    }}
}}

/// Text of the library. It must live as long as the result is used.
unsafe fn text<'a>(from: *const c_char) -> &'a str {{
    if from.is_null() {{ "" }} else {{ CStr::from_ptr(from).to_str().unwrap_or("") }}
}}

fn terminated(from: &str) -> Result<CString, Error> {{
    CString::new(from).map_err(|_| Error::new(sys::DLOCK_INVALID_ARGUMENT, "text may not have a NUL"))
}}

impl Client {{
    /// A duplicate of the descriptor, which is polled and closed apart from the client.
    pub fn descriptor(&self) -> Result<OwnedFd, Error> {{
        let fd = unsafe {{ BorrowedFd::borrow_raw(self.fd()?) }};
        fd.try_clone_to_owned().map_err(|e| Error::new(sys::DLOCK_SYSTEM_ERROR, &e.to_string()))
    }}
}}
"""
NUMBERS_HEAD = f"""\
{WRITTEN}
//! Statuses, kinds, states, causes and counters.
"""
REQUESTS_HEAD = f"""\
{WRITTEN}
//! Requests to the server about a lock. They block for as long as the server takes, up to the option `command_timeout_ms`;
//! those of [`crate::aio`] are awaited.
use crate::{{milliseconds, Error, ErrorKind, Inspection, Lock, Owner}};
use std::time::Duration;
"""
# Groups of constants that become enums: the type and what it is.
ENUMS = {
    "DLOCK_KIND_": ("Kind", "A kind of lock."),
    "DLOCK_STATE_": ("State", "What an owner has of a lock."),
    "DLOCK_CAUSE_": ("Cause", "Why a grant was lost."),
    "DLOCK_EVENT_": ("EventKind", "What an event tells."),
    "DLOCK_FINDING_": ("FindingKind", "What a check of the server found."),
}
SHARED = ("dlock_client", "dlock_lock")  # any thread may use them; the others belong to one thread at a time


def camel(name: str) -> str:
    return "".join(word.title() for word in name.lower().split("_"))


def doc(text: str, margin: str = "") -> list[str]:
    """Doc comments of at most 120 columns. Names of the API are code."""
    lines = []
    for part in text.split("\n\n"):
        part = re.sub(r"(?<![\w`])([\w+]+://[^\s,]*|\*?\w*_\w*\*?|[A-Z][a-z]+[A-Z]\w+|NotHeld|Lost|Busy)(?![\w`])", r"`\1`", part)
        part = re.sub(r"(?<!`)([<>\[\]])(?!`)", r"\\\1", part)
        lines += [*([f"{margin}///"] if lines else []), *[f"{margin}/// {line}" for line in textwrap.wrap(part, 112 - len(margin))]]
    return lines


# ---- dlock-sys


def sys_type(kind: str) -> str:
    base = kind.removeprefix("const ").rstrip(" *")
    rust = {"char": "c_char", "uint8_t": "u8", "size_t": "usize", "dlock_status": "dlock_status", "void": "()"}.get(base)
    rust = rust or (base if base.startswith("dlock_") else re.sub(r"^(u?)int(\d+)_t$", lambda found: ("u" if found[1] else "i") + found[2], base))
    stars = kind.count("*")
    inner = ("*const " if kind.startswith("const ") else "*mut ") * min(stars, 1) + rust
    return "*mut " * max(stars - 1, 0) + inner


def dlock_sys_rs(whole: Json) -> str:
    lines = [SYS_HEAD]
    lines += [f"pub type {one['name']} = {sys_type(one['type'])};\n" for one in whole["integers"]]
    for one in whole["opaque"]:
        lines += [f"/// Opaque; freed by [`{one['free']}`].", "#[repr(C)]", f"pub struct {one['name']} {{", "    _private: [u8; 0],", "}\n"]
    for group in whole["constants"]:
        kind = "usize" if group["prefix"] in ("DLOCK_FIELD_", "DLOCK_STAT_") else "i32"
        lines += [f"pub const {one['name']}: {kind} = {one['value']};" for one in group["constants"]] + [""]
    lines += ['#[link(name = "dlock")]', 'extern "C" {']
    for function in whole["functions"]:
        params = ", ".join(f"{one['name']}: {sys_type(one['type'])}" for one in function["params"])
        result = sys_type(function["returns"]["type"])
        lines += [*doc(function["says"], "    "), f"    pub fn {function['name']}({params}){'' if result == '()' else ' -> ' + result};"]
    return "\n".join([*lines, "}", ""])


# ---- raw.rs


def handle(name: str) -> str:
    return camel(name.removeprefix("dlock_"))


def raw_rs(whole: Json) -> str:
    opaque = [one["name"] for one in whole["opaque"] if one["name"] != "dlock_error"]
    lines = [RAW_HEAD]
    for name in opaque:
        kind = handle(name)
        lines += [f"#[derive(Debug)]\npub struct {kind}(NonNull<sys::{name}>);", "", f"unsafe impl Send for {kind} {{}}"]
        lines += [f"unsafe impl Sync for {kind} {{}}"] if name in SHARED else []
        lines += ["", f"impl Drop for {kind} {{", "    fn drop(&mut self) {", f"        unsafe {{ sys::{name}_free(self.0.as_ptr()) }}", "    }", "}", ""]
    methods: dict[str, list[str]] = {name: [] for name in ["", *opaque]}
    for function in whole["functions"]:
        name = function["name"]
        if name.endswith("_free") or name.startswith("dlock_error_"):
            continue
        owner = next((base for base in opaque if function["params"] and base_of(function["params"][0]) == base and "**" not in function["params"][0]["type"]), "")
        place = owner or next((base for base in opaque if name in (base + "_new", base + "_open")), "")
        methods[place] += raw_method(function, owner, place)
    for name, body in methods.items():
        lines += [*(f"{line[4:]}" if line.startswith("    ") else line for line in body)] if not name else [f"impl {handle(name)} {{", *body, "}", ""]
    return "\n".join(lines)


def base_of(one: Json) -> str:
    return one["type"].removeprefix("const ").rstrip(" *")


def raw_method(function: Json, owner: str, place: str) -> list[str]:
    params, before, given, results = raw_parameters(function, owner)
    name = function["name"].removeprefix(place + "_").removeprefix("dlock_")
    name = f"r#{name}" if name == "type" else name
    called = f"sys::{function['name']}({', '.join(given)})"
    returns = function["returns"]
    if returns["is"] == "status":
        kinds = [kind for _, kind, _ in results]
        kind = "()" if not kinds else kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
        made = [value for _, _, value in results]
        value = "()" if not made else made[0] if len(made) == 1 else f"({', '.join(made)})"
        result = f" -> Result<{kind}, Error>"
        body = [*before, f"call(|reterr| unsafe {{ {called} }})?;", f"Ok({value})"] if made else [*before, f"call(|reterr| unsafe {{ {called} }})"]
    else:
        kind, value = raw_result(returns, called)
        result, body = f" -> {kind}", [*before, value]
    return [*doc(function["says"], "    "), f"    pub fn {name}({', '.join(params)}){result} {{", *[f"        {line}" for line in body], "    }"]


def raw_result(returns: Json, called: str) -> tuple[str, str]:
    if returns["is"] == "handle":
        return "Option<Self>", f"NonNull::new(unsafe {{ {called} }}).map(Self)"
    if returns["is"] == "text" and returns["ownership"] != "constant":
        return "String", f"unsafe {{ text({called}) }}.to_owned()"
    if returns["is"] == "text":
        return "&'static str", f"unsafe {{ text({called}) }}"
    return sys_type(returns["type"]).replace("dlock_status", "i32"), f"unsafe {{ {called} }}"


def raw_parameters(function: Json, owner: str) -> tuple[list[str], list[str], list[str], list[tuple[str, str, str]]]:
    """Parameters of the method, lines before the call, arguments of the call, and results: name, type, value."""
    params: list[str] = []
    before: list[str] = []
    given: list[str] = []
    results: list[tuple[str, str, str]] = []
    lengths = {one["length"] for one in function["params"] if one.get("length")}
    fallible = function["returns"]["is"] == "status"
    for place, one in enumerate(function["params"]):
        name, base = one["name"], base_of(one)
        if place == 0 and owner:
            alone = function["threads"].startswith("one at a time") and not one["type"].startswith("const ")
            params.append("&mut self" if alone else "&self")
            given.append("self.0.as_ptr()")
        elif name == "reterr":
            given.append("reterr")
        elif name in lengths:
            given.append(f"{next(other['name'] for other in function['params'] if other.get('length') == name)}.len()")
        elif one["is"] == "array of handles":
            params.append(f"{name}: &[&{handle(base)}]")
            before.append(f"let mut {name}: Vec<_> = {name}.iter().map(|one| one.0.as_ptr()).collect();")
            given.append(f"{name}.as_mut_ptr()")
        elif one["is"] == "box":
            params.append(f"{name}: &mut {handle(base)}")
            given.append(f"{name}.0.as_ptr()")
        elif one["is"] == "handle" and one["direction"] == "out":
            before.append(f"let mut {name} = null_mut();")
            given.append(f"&mut {name}")
            results.append((name, "Self" if owner == base or function["name"].startswith(base) and not owner else handle(base), f"{handle(base)}(NonNull::new({name}).ok_or_else(Error::unmade)?)"))
        elif one["is"] == "handle":
            params.append(f"{name}: Option<&{handle(base)}>")
            given.append(f"{name}.map_or(null{'' if one['type'].startswith('const') else '_mut'}(), |one| one.0.as_ptr(){' as *const _' if one['type'].startswith('const') else ''})")
        elif one["is"] == "text" and one["direction"] == "in":
            params.append(f"{name}: &str")
            before.append(f"let {name} = terminated({name}){'?' if fallible else '.unwrap_or_default()'};")
            given.append(f"{name}.as_ptr()")
        elif one["is"] == "bytes" and one["direction"] == "in":
            params.append(f"{name}: &[u8]")
            given.append(f"{name}.as_ptr()" + (".cast()" if base == "char" else ""))
        elif one["is"] == "number" and one["direction"] == "out":
            before.append(f"let mut {name} = 0;")
            given.append(f"&mut {name}")
            results.append((name, sys_type(base), name))
        elif one["direction"] == "out":
            params.append(f"{name}: &mut [{'i64' if one['is'] == 'array of numbers' else 'u8'}]")
            given.append(f"{name}.as_mut_ptr()" + (".cast()" if base == "char" else ""))
        else:
            params.append(f"{name}: {sys_type(one['type']).replace('dlock_status', 'i32')}")
            given.append(name)
    return params, before, given, results


# ---- numbers.rs


def variants(pairs: Iterable[tuple[str, int, str]], kind: str, says: str, other: str) -> list[str]:
    pairs = list(pairs)
    lines = [f"/// {says} A newer library may have more.", "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]", "#[non_exhaustive]", f"pub enum {kind} {{"]
    for name, _, text in pairs:
        lines += [*doc(text, "    "), f"    {name},"]
    lines += [*doc(other, "    "), "    Other(i32),", "}", "", f"impl From<i32> for {kind} {{", "    fn from(number: i32) -> Self {", "        match number {"]
    lines += [f"            {value} => Self::{name}," for name, value, _ in pairs]
    lines += ["            other => Self::Other(other),", "        }", "    }", "}", "", f"impl From<{kind}> for i32 {{", f"    fn from(one: {kind}) -> Self {{", "        match one {"]
    lines += [f"            {kind}::{name} => {value}," for name, value, _ in pairs]
    return [*lines, f"            {kind}::Other(other) => other,", "        }", "    }", "}", ""]


def numbers_rs(whole: Json) -> str:
    lines = [NUMBERS_HEAD]
    statuses = [(camel(one["name"]), one["value"], one["text"]) for one in whole["statuses"] if one["value"]]
    lines += variants(statuses, "ErrorKind", "What kind of error it is: the statuses of the library but OK.", "A status that this crate does not know.")
    for group in whole["constants"]:
        prefix = group["prefix"]
        if prefix in ENUMS:
            kind, says = ENUMS[prefix]
            pairs = [(camel(one["name"].removeprefix(prefix)), one["value"], f"{one['name']}.") for one in group["constants"]]
            lines += variants(pairs, kind, says, "A number that this crate does not know.")
        if prefix == "DLOCK_STAT_":
            names = [one["name"].removeprefix(prefix).lower() for one in group["constants"] if not one["name"].endswith("_COUNT")]
            lines += ["/// The counters of a client. All but the last three only grow.", "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]", "#[non_exhaustive]", "pub struct Stats {"]
            for name in names:
                lines += [*doc(f"DLOCK_STAT_{name.upper()}.", "    "), f"    pub {name}: i64,"]
            lines += ["}", "", f"impl From<[i64; {len(names)}]> for Stats {{", f"    fn from(values: [i64; {len(names)}]) -> Self {{"]
            lines += [f"        let [{', '.join(names)}] = values;", f"        Self {{ {', '.join(names)} }}", "    }", "}", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


# ---- requests.rs


def requests_rs(whole: Json) -> str:
    functions = {function["name"]: function for function in whole["functions"]}
    parts: dict[str, list[str]] = {"Lock": [], "Owner": [], "aio::Lock": [], "aio::Guard": []}
    for verb, (public, no, says) in VERBS.items():
        if not public or public == "adopt_grant":
            continue
        function = functions["dlock_" + verb]
        submit = functions[function["submit"]]
        owned = any(one["name"] == "owner" for one in function["params"])
        head = doc(re.sub(r"\bFalse\b", "`false`", says.strip().replace(" seconds", "")), "    ")
        parts["Owner" if owned else "Lock"] += request(function, function, public, no, head)
        parts["aio::Guard" if owned else "aio::Lock"] += request(submit, function, public, no, head)
    lines = [REQUESTS_HEAD]
    for kind, body in parts.items():
        lines += ['#[cfg(feature = "tokio")]'] if kind.startswith("aio") else []
        lines += [f"impl {'crate::' if kind.startswith('aio') else ''}{kind} {{", *body, "}", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def request(function: Json, blocking: Json, name: str, no: str, head: list[str]) -> list[str]:
    """A method of a lock or of an owner; the submitted form becomes an async one."""
    later, params, given = function is not blocking, ["&self"], []
    for one in function["params"][1:]:
        if one["name"] == "owner":
            given.append("self.number()")
        elif one["name"].endswith("_ms"):
            plain = one["name"].removesuffix("_ms")
            params.append(f"{plain}: Duration")
            given.append(f"milliseconds({plain})")
        elif one["is"] == "number" and one["direction"] == "in" and one["name"] != "tag":
            params.append(f"{one['name']}: i64")
            given.append(one["name"])
    outs = [one["is"] for one in blocking["params"] if one["direction"] == "out" and one["name"] != "reterr"]
    kind = {"box": "Inspection", "number": "i64"}.get(*outs) if outs else "bool" if no else "()"
    method = function["name"].removeprefix("dlock_lock_").removeprefix("dlock_")
    if later:
        call = f"self.request(|lock, tag| lock.{method}({', '.join([*given, 'tag'])})).await"
        body = {"Inspection": f"Ok(Inspection::from(&{call}?))", "i64": f"Ok({call}?.value)", "()": f"{call}.map(drop)"}.get(kind, f"{call}.map(drop)")
    elif kind == "Inspection":
        body = f"self.seen(|lock, event| lock.{method}({', '.join([*given, 'event'])}))"
    else:
        body = f"self.raw().{method}({', '.join(given)})"
    if no:
        body = f"Error::unless({body}, ErrorKind::{camel(no)})"
    errors = ["    ///", "    /// # Errors", *doc("The statuses of the call in C: " + ", ".join(camel(one.removeprefix("DLOCK_")) for one in blocking["errors"] if not one.endswith("*")) + "; what stands in the way of any request.", "    ")]
    return [*head, *errors, f"    pub {'async ' if later else ''}fn {name}({', '.join(params)}) -> Result<{kind}, Error> {{", f"        {body}", "    }"]
