"""The ABI contract: what gen.py refuses, what is frozen, what the library exports, and that an installed copy works."""
from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from harness.build import LIBRARY, ROOT, clean_env

sys.path.insert(0, str(ROOT / "abi"))
import gen  # noqa: E402

pytestmark = pytest.mark.house
HEADER = (ROOT / "abi/dlock.h").read_text()
END = "#ifdef __cplusplus\n}\n#endif\n"
COMMENT = "/*\n * Bad.\n * Threads: any. Blocks: never. Since: 0.1\n */\n"


def with_text(text: str) -> str:
    """The header with text appended."""
    assert HEADER.count(END) == 1
    return HEADER.replace(END, text + "\n\n" + END)


def function(prototype: str) -> str:
    return COMMENT + "DLOCK_API\n" + prototype


# ---- the profile

BAD = {
    "varargs": function("void dlock_bad(const char *format, ...);"),
    "va_list": function("void dlock_bad(const char *format, va_list list);"),
    "struct by value": function("void dlock_bad(struct dlock_lock lock);"),
    "opaque type by value": function("void dlock_bad(dlock_lock lock);"),
    "opaque type returned by value": function("dlock_lock dlock_bad(void);"),
    "struct definition": "struct dlock_bad { int32_t x; };",
    "struct definition in a typedef": "typedef struct dlock_bad { int32_t x; } dlock_bad;",
    "union": "typedef union dlock_bad dlock_bad;",
    "bit-field": "struct dlock_bad\n{ uint32_t x : 3; };",
    "inline body": "static inline int32_t dlock_bad(void) { return 0; }",
    "body": function("int32_t dlock_bad(void) { return 0; }"),
    "function pointer": function("void dlock_bad(void (*call)(int32_t x));"),
    "function pointer type": "typedef void (*dlock_bad)(int32_t x);",
    "function-like macro": "#define DLOCK_BAD(x) (x)",
    "macro": "#define DLOCK_BAD 1",
    "include": "#include <stdbool.h>",
    "bool": function("bool dlock_bad(void);"),
    "_Bool": function("void dlock_bad(_Bool x);"),
    "long": function("void dlock_bad(long x);"),
    "int": function("int dlock_bad(void);"),
    "unsigned": function("void dlock_bad(unsigned x);"),
    "char by value": function("void dlock_bad(char x);"),
    "enum type": function("void dlock_bad(enum dlock_color x);"),
    "named enum": "enum dlock_color { DLOCK_RED = 0 };",
    "float": function("void dlock_bad(float x);"),
    "double": function("double dlock_bad(void);"),
    "void pointer": function("void dlock_bad(void *x);"),
    "array": function("void dlock_bad(int32_t x[4]);"),
    "FILE": function("void dlock_bad(FILE *x);"),
    "time_t": function("void dlock_bad(time_t x);"),
    "three stars": function("void dlock_bad(dlock_lock ***x);"),
    "unknown type": function("void dlock_bad(dlock_unknown *x);"),
    "no parameter list": function("void dlock_bad();"),
    "parameter without a name": function("void dlock_bad(int32_t);"),
    "pointer without a name": function("void dlock_bad(dlock_lock *);"),
    "other name": function("void other(void);"),
    "conditional declaration": "#ifdef DLOCK_TLS\n" + function("void dlock_bad(void);") + "\n#endif",
    "#if": "#if 1\n#endif",
    "export macro on the line": COMMENT + "DLOCK_API void dlock_bad(void);",
    "no export macro": COMMENT + "void dlock_bad(void);",
    "two declarations": function("void dlock_bad(void), dlock_worse(void);"),
    "variable": "extern int32_t dlock_bad;",
    "declared twice": function("uint32_t dlock_version(void);"),
    "no comment": "\nDLOCK_API\nvoid dlock_bad(void);",
    "comment apart": COMMENT + "\nDLOCK_API\nvoid dlock_bad(void);",
    "no Threads": "/* Blocks: never. Since: 0.1 */\nDLOCK_API\nvoid dlock_bad(void);",
    "no Blocks": "/* Threads: any. Since: 0.1 */\nDLOCK_API\nvoid dlock_bad(void);",
    "no Since": "/* Threads: any. Blocks: never. */\nDLOCK_API\nvoid dlock_bad(void);",
    "no version": "/* Threads: any. Blocks: never. Since: always */\nDLOCK_API\nvoid dlock_bad(void);",
    "implicit value": "enum { DLOCK_BAD };",
    "computed value": "enum { DLOCK_BAD = 1 << 3 };",
    "value used twice": "enum { DLOCK_BAD = 1, DLOCK_WORSE = 1 };",
    "constant twice": "enum { DLOCK_BUSY = 1 };",
    "wide constant": "enum { DLOCK_BAD = 4294967296 };",
    "other constant": "enum { BAD = 1 };",
    "line comment": "// bad",
    "continued line": "enum { DLOCK_BAD \\\n = 1 };",
    "rest": "dlock_bad",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_profile_refuses(text: str) -> None:
    with pytest.raises(gen.Refused):
        gen.read_header(with_text(text))


def test_profile_takes_what_is_allowed() -> None:
    good = function(
        "dlock_status dlock_good(const dlock_lock *lock, dlock_event **ret_event, const char *name, size_t name_size,\n"
        "                        char *buffer, const uint8_t *in, uint8_t *out, uint64_t *ret_number);"
    )
    header = gen.read_header(with_text(good + "\n\nenum { DLOCK_GOOD = -7, DLOCK_BETTER = 8 };"))
    assert header.constants["DLOCK_GOOD"] == -7
    assert header.functions["dlock_good"].signature() == (
        "dlock_status (const dlock_lock *lock, dlock_event **ret_event, const char *name, size_t name_size, "
        "char *buffer, const uint8_t *in, uint8_t *out, uint64_t *ret_number)"
    )
    assert "c_uint64" in gen.abi_py(header).splitlines()[6]


def test_the_guard_must_stand() -> None:
    for line in gen.DIRECTIVES:
        with pytest.raises(gen.Refused):
            gen.read_header(HEADER.replace(line + "\n", "", 1))


# ---- what is frozen


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the files that gen.py reads."""
    shutil.copytree(ROOT / "abi", tmp_path / "abi", ignore=shutil.ignore_patterns("__pycache__"))
    python = [f"bindings/python/dlock/{name}" for name in ("_abi.py", "_statuses.pyi", "operations.py", "makers.py")]
    rust = [f"bindings/rust/{name}.rs" for name in ("dlock-sys/src/lib", "dlock/src/raw", "dlock/src/numbers", "dlock/src/requests")]
    node = [f"bindings/node/{name}" for name in ("src/calls.c", "lib/numbers.js", "lib/requests.js", "lib/requests.d.ts")]
    for name in (*python, *rust, *node, "bindings/lua/dlock/cdef.lua", "bindings/go/abi.go", "docs/api.md", "src/base/error.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run_gen(root: pathlib.Path, *words: str) -> str:
    """What gen.py objects to; "" if nothing."""
    command = [sys.executable, str(ROOT / "abi/gen.py"), "--root", str(root), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


def edit(path: pathlib.Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def add_function(tree: pathlib.Path, name: str, since: str, before: str) -> None:
    text = function(f"int32_t {name}(void);").replace("Since: 0.1", f"Since: {since}")
    edit(tree / "abi/dlock.h", END, text + "\n\n" + END)
    edit(tree / "abi/dlock.map", before, f"    {name};\n" + before)


def test_header_map_and_generated_files_agree(tree: pathlib.Path) -> None:
    assert run_gen(ROOT, "check") == ""
    assert run_gen(tree, "check") == ""


@pytest.mark.parametrize(
    "old, new",
    [
        ("uint32_t dlock_version(void)", "int32_t dlock_version(void)"),
        ("int64_t owner, int64_t wait_ms, int64_t *ret", "int64_t wait_ms, int64_t owner, int64_t *ret"),
        ("DLOCK_BUSY = 1,", "DLOCK_BUSY = 11,"),
        ("    DLOCK_STATE_WAITING = 1,\n", ""),
        ("typedef int32_t dlock_status;", "typedef int64_t dlock_status;"),
        ("DLOCK_STAT_COUNT = ", "DLOCK_STAT_COUNT = -"),
    ],
)
def test_a_locked_line_cannot_change(tree: pathlib.Path, old: str, new: str) -> None:
    edit(tree / "abi/dlock.h", old, new)
    assert "locked" in run_gen(tree, "check")
    assert "locked" in run_gen(tree, "write")
    assert run_gen(tree, "write", "--unlock") == ""
    assert run_gen(tree, "check") == ""


def test_a_locked_function_cannot_go(tree: pathlib.Path) -> None:
    start = HEADER.index("/*\n * 1 if this build has the named feature")
    stop = HEADER.index(";", start) + 1
    edit(tree / "abi/dlock.h", HEADER[start:stop], "")
    assert "only in dlock.map: dlock_supports" in run_gen(tree, "check")
    edit(tree / "abi/dlock.map", "    dlock_supports;\n", "")
    assert "locked" in run_gen(tree, "check")


def test_additions_go_into_the_newest_node(tree: pathlib.Path) -> None:
    first, last = list(gen.read_map((tree / "abi/dlock.map").read_text()).values())[0], "};\n"
    newest = list(gen.read_map((tree / "abi/dlock.map").read_text()).values())[-1]
    edit(tree / "abi/dlock.map", last, last + "DLOCK_9.9 {\nglobal:\n    dlock_new;\n} " + newest + ";\n")
    edit(tree / "abi/dlock.h", END, function("void dlock_new(void);").replace("Since: 0.1", "Since: 9.9") + "\n\n" + END)
    edit(tree / "abi/dlock.h", "    DLOCK_STATE_LOST = 4\n", "    DLOCK_STATE_LOST = 4,\n    DLOCK_STATE_NEW = 5\n")
    assert "not fresh" in run_gen(tree, "check")
    assert run_gen(tree, "write") == ""
    assert run_gen(tree, "check") == ""
    add_function(tree, "dlock_late", first.removeprefix("DLOCK_"), "local:")
    assert "newest node" in run_gen(tree, "check")


def test_since_and_node_agree(tree: pathlib.Path) -> None:
    edit(tree / "abi/dlock.h", "Since: 0.1\n */\nDLOCK_API\nuint32_t dlock_version", "Since: 0.2\n */\nDLOCK_API\nuint32_t dlock_version")
    assert "since 0.2" in run_gen(tree, "check")


def test_a_count_may_grow(tree: pathlib.Path) -> None:
    count = gen.read_header(HEADER).constants["DLOCK_STAT_COUNT"]
    edit(tree / "abi/dlock.h", f"DLOCK_STAT_COUNT = {count}", f"DLOCK_STAT_NEW = {count},\n    DLOCK_STAT_COUNT = {count + 1}")
    assert run_gen(tree, "write") == ""
    assert run_gen(tree, "check") == ""


def test_generated_files_must_be_fresh(tree: pathlib.Path) -> None:
    for name, old, new in (
        ("bindings/python/dlock/_abi.py", "DLOCK_OK = 0", "DLOCK_OK = 1"),
        ("bindings/python/dlock/_statuses.pyi", "class Busy(DlockError)", "class Busy(Exception)"),
        ("bindings/python/dlock/operations.py", "count: int = 1", "count: int = 2"),
        ("bindings/python/dlock/makers.py", '"fair"', '"mutex"'),
        ("bindings/go/abi.go", "ErrBusy Status = 1", "ErrBusy Status = 2"),
        ("bindings/go/abi.go", "owner int64, waitMs int64", "waitMs int64, owner int64"),
        ("bindings/rust/dlock/src/raw.rs", "reterr", "error"),
        ("bindings/rust/dlock/src/numbers.rs", "Busy,", "Buzy,"),
        ("bindings/node/src/calls.c", "(&c, 0)", "(&c, 1)"),
        ("bindings/node/lib/requests.d.ts", "openGate", "gateOpen"),
        ("abi/dlock.json", '"nullable": true', '"nullable": false'),
        ("src/base/error.c", "The client is closed.", "The client was closed."),
    ):
        fresh = (tree / name).read_text()
        edit(tree / name, old, new)
        stale = "_statuses.pyi" if name == "src/base/error.c" else pathlib.Path(name).name
        assert f"{stale} is not fresh" in run_gen(tree, "check")
        (tree / name).write_text(fresh)
    assert run_gen(tree, "check") == ""


def test_statuses_and_their_sentences_agree(tree: pathlib.Path) -> None:
    """However the lines of a row are broken: each status has a sentence, and is in Go."""
    header = gen.read_header(HEADER)
    texts = gen.read_texts((ROOT / "src/base/error.c").read_text())
    assert set(texts) == set(header.statuses) and all(len(text) > 15 and "\n" not in text for text in texts.values())
    constants = re.findall(r"^\tErr\w+ Status = (-?\d+)$", (ROOT / "bindings/go/abi.go").read_text(), flags=re.M)
    assert sorted(map(int, constants)) == sorted(header.constants[f"DLOCK_{name}"] for name in texts if name != "OK")
    row = '    ROW(CLOSED, 0, "The client is closed."),\n'
    broken = '    ROW(CLOSED,\n        0,\n        "The client"\n        " is closed."),\n'
    edit(tree / "src/base/error.c", row, broken)
    assert run_gen(tree, "check") == ""
    edit(tree / "src/base/error.c", broken, "")
    for command in ("check", "write"):
        assert "only in dlock.h: CLOSED; only in error.c: -" in run_gen(tree, command)
    edit(tree / "src/base/error.c", "    ROW(FORKED,", row.replace("CLOSED", "SHUT") + row + row + "    ROW(FORKED,")
    assert "CLOSED: two sentences" in run_gen(tree, "check")
    edit(tree / "src/base/error.c", row, "")
    assert "only in dlock.h: -; only in error.c: SHUT" in run_gen(tree, "check")


def test_what_locks_do_has_a_name_in_go(tree: pathlib.Path) -> None:
    call = function("dlock_status dlock_lock_submit_new(dlock_lock *lock, int64_t tag, dlock_error *reterr);")
    edit(tree / "abi/dlock.h", END, call + "\n\n" + END)
    edit(tree / "abi/dlock.map", "local:", "    dlock_lock_submit_new;\nlocal:")
    assert "only in dlock.h: lock_submit_new; only in go_names.py: -" in run_gen(tree, "write")
    (tree / "abi/dlock.h").write_text(HEADER.replace("DLOCK_KIND_MULTI = 8", "DLOCK_KIND_MULTI = 8,\n    DLOCK_KIND_NEW = 9"))
    (tree / "abi/dlock.map").write_text((ROOT / "abi/dlock.map").read_text())
    assert "only in dlock.h: NEW; only in go_names.py: -" in run_gen(tree, "write")


def test_what_locks_do_has_a_name_in_python(tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gen.Tree(tree).check()
    monkeypatch.delitem(gen.PYTHON_KINDS, "FAIR")
    with pytest.raises(gen.Refused, match="only in dlock.h: FAIR; only in python_names.py: -"):
        gen.Tree(tree)
    monkeypatch.undo()
    monkeypatch.delitem(gen.PYTHON_VERBS, "latch_count")
    with pytest.raises(gen.Refused, match="only in dlock.h: latch_count; only in python_names.py: -"):
        gen.Tree(tree)


# ---- what the library exports


def test_exports_are_header_and_map() -> None:
    assert run_gen(ROOT, "symbols", str(LIBRARY)) == ""


def test_a_missing_export_is_seen(tree: pathlib.Path) -> None:
    add_function(tree, "dlock_missing", "0.1", "local:")
    assert "only in dlock.map: dlock_missing" in run_gen(tree, "symbols", str(LIBRARY))


def test_prototypes_load_into_ctypes() -> None:
    import ctypes

    from dlock import _abi

    library = ctypes.CDLL(str(LIBRARY))
    for name, (restype, argtypes) in _abi.PROTOTYPES.items():
        call = getattr(library, name)
        call.restype, call.argtypes = restype, argtypes
    assert library.dlock_version_string() == b"%d.%d.%d" % tuple(library.dlock_version().to_bytes(3, "big"))


# ---- an installed copy

USER = r"""
#include <dlock.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    dlock_error *error = dlock_error_new();
    dlock_options *options = dlock_options_new();
    if (!error || !options || dlock_error_code(error) != DLOCK_OK || strcmp(dlock_error_message(error), "") != 0)
        return 1;
    if (dlock_options_set(options, "no_such_option", "1", error) != DLOCK_UNKNOWN_OPTION)
        return 2;
    if (dlock_error_code(error) != DLOCK_UNKNOWN_OPTION || strlen(dlock_error_message(error)) == 0)
        return 3;
    for (size_t i = 0; i < dlock_option_count(); i++) {
        if (!dlock_option_name(i) || !dlock_option_type(i) || !dlock_option_default(i) || !dlock_option_help(i))
            return 4;
        char text[512];
        size_t size = 0;
        if (dlock_options_get(options, dlock_option_name(i), text, sizeof text, &size, error) != DLOCK_OK)
            return 5;
    }
    for (size_t i = 0; i < dlock_status_count(); i++) {
        if (strcmp(dlock_status_name(dlock_status_at(i)), "UNKNOWN") == 0)
            return 6;
    }
    printf("%s %zu\n", dlock_version_string(), dlock_option_count());
    dlock_options_free(options);
    dlock_error_free(error);
    return 0;
}
"""


def output_of(command: list[str], **env: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=clean_env(**env))
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


COMPLETIONS = ["share/bash-completion/completions/dlock", "share/fish/vendor_completions.d/dlock.fish", "share/zsh/site-functions/_dlock"]


@pytest.mark.full
@pytest.mark.timeout(180)
def test_pkg_config_is_all_a_program_needs(tmp_path: pathlib.Path) -> None:
    build, prefix = tmp_path / "the build", tmp_path / "the prefix"
    output_of(["meson", "setup", str(build), str(ROOT), f"--prefix={prefix}", "--buildtype=plain", "-Dtests=false", "-Ddemo=false", "-Dman=enabled"])
    output_of(["ninja", "-C", str(build)])
    output_of(["meson", "install", "-C", str(build), "--no-rebuild"])
    installed = sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir())
    libdir = pathlib.Path(next(name for name in installed if name.endswith("libdlock.so.1"))).parent
    calls = re.findall(r"^    (dlock_\w+);$", (ROOT / "abi/dlock.map").read_text(), re.M)
    pages = {"share/man/man1/dlock.1", "share/man/man7/dlock.7", "share/man/man7/dlock_options.7", *(f"share/man/man3/{call}.3" for call in calls)}
    assert pages <= set(installed) and all((prefix / page).read_text() for page in pages)
    assert [name for name in installed if not name.startswith("share/man/")] == sorted(
        ["bin/dlock", *COMPLETIONS, "include/dlock.h", "share/dlock/dlock.json", f"{libdir}/libdlock.so", f"{libdir}/libdlock.so.1", f"{libdir}/pkgconfig/dlock.pc"]
    )

    # Only the installed folder is searched: it has no .pc file of hiredis.
    search = {"PKG_CONFIG_LIBDIR": str(prefix / libdir / "pkgconfig")}
    flags = shlex.split(output_of(["pkg-config", "--cflags", "--libs", "dlock"], **search))
    version = output_of(["pkg-config", "--modversion", "dlock"], **search).strip()
    contract = output_of(["pkg-config", "--variable=contract", "dlock"], **search).strip()
    assert pathlib.Path(contract).read_text() == (ROOT / "abi/dlock.json").read_text()
    source, program = tmp_path / "user.c", tmp_path / "user"
    source.write_text(USER)
    output_of(["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", str(source), "-o", str(program), *flags])
    output = output_of([str(program)], LD_LIBRARY_PATH=str(prefix / libdir)).split()
    assert output[0] == version
    assert int(output[1]) > 0
    needed = re.findall(r"NEEDED.*\[(.*)\]", output_of(["readelf", "-dW", str(program)]))
    assert "libdlock.so.1" in needed and not any("hiredis" in name for name in needed)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("inside", [True, False])
def test_pkg_config_says_where_it_is(tmp_path: pathlib.Path, inside: bool) -> None:
    """Distributions use absolute folders, some of them outside the prefix: headers are in a package of their own."""
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    libdir, includedir = ((prefix if inside else tmp_path / part) / part for part in ("lib", "include"))
    where = [f"--prefix={prefix}", f"--libdir={libdir}", f"--includedir={includedir}"]
    output_of(["meson", "setup", str(build), str(ROOT), *where, "-Dtests=false", "-Ddemo=false"])
    for variable, folder in (("libdir", libdir), ("includedir", includedir)):
        said = output_of(["pkg-config", f"--variable={variable}", "dlock"], PKG_CONFIG_LIBDIR=str(build))
        assert said.strip() == str(folder)


def test_the_header_names_every_feature() -> None:
    comment = (ROOT / "abi/dlock.h").read_text().split("int32_t dlock_supports(")[0].rsplit("/*", 1)[1]
    code = (ROOT / "src/api/library.c").read_text().split("int32_t dlock_supports(")[1].split("\n}\n")[0]
    assert set(re.findall(r'"(\w+)"', comment)) == set(re.findall(r'"(\w+)"', code))


def test_version_is_the_same_everywhere() -> None:
    version = re.search(r"^  version: '(.*)',$", (ROOT / "meson.build").read_text(), flags=re.M)
    assert version
    major, minor, _ = version[1].split(".")
    assert list(gen.read_map((ROOT / "abi/dlock.map").read_text()).values())[-1] == f"DLOCK_{major}.{minor}"
    assert version[1] in (ROOT / "CHANGELOG.md").read_text()
    assert os.readlink(LIBRARY.parent / "libdlock.so") == "libdlock.so.1"
