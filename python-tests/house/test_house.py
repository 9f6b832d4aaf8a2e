"""The tree itself: budgets, include directions and texts, checked by python-tests/house. Also: these checks find what they must, scripts
are embedded, and ./dev works.
"""
from __future__ import annotations

import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

import pytest

from harness.build import ROOT, clean_env
from harness.server import Server
from harness.steps.scripts import path_of

pytestmark = pytest.mark.house


def lint(name: str, root: pathlib.Path) -> str:
    """The output of a check; "" if it finds nothing."""
    command = [sys.executable, str(ROOT / f"python-tests/house/{name}.py"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.stderr
    assert done.returncode == (1 if done.stdout else 0)
    return done.stdout


@pytest.mark.parametrize("name", ["sizes", "includes", "idioms", "recursion", "texts"])
def test_the_tree_is_clean(name: str) -> None:
    assert lint(name, ROOT) == ""


def test_a_worktree_is_a_tree(tmp_path: pathlib.Path) -> None:
    text = "gitdir: /" + "tmp/tree\n"
    (tmp_path / "README").write_text(text)
    assert "README:1: " in lint("texts", tmp_path)
    (tmp_path / "README").rename(tmp_path / ".git")
    assert lint("texts", tmp_path) == ""


# ---- the checks find what they must


def make_tree(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    """A tree with src/PATH for each path, all C files listed in src/meson.build."""
    (root / "src").mkdir()
    for name, text in files.items():
        path = root / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "src/meson.build").write_text("".join(f"  '{name}',\n" for name in files if name.endswith(".c")))
    return root


def lines(count: int) -> str:
    """A function of so many lines."""
    return "static void f(void)\n{\n" + "    ;\n" * (count - 3) + "}\n"


FINE = {
    "engine/fine.c": '#include <string.h>\n#include "base/error.h"\n#include "fine.h"\n#include "store/store.h"\n#include "dlock.h"\n',
    "redis/codec/resp.c": "#include <read.h>\n",
    "net/tls.c": "#include <openssl/err.h>\n",
    "redis/pipe/pipe.c": '#include <sys/socket.h>\n#include "sys/sys.h"\n#include "redis/link/link.h"\n#include "redis/scripts/scripts.h"\n',
    "redis/quorum/round.c": '#include "inner.h"\n#include "engine/engine.h"\n#include "redis/single/single.h"\n',
    "sys/clock.c": "#include <time.h>\n#include <pthread.h>\n",
    "api/lock.c": '#include "client/client.h"\nint dlock_lock(void)\n{\n    return 0;\n}\n',
    "base/error.c": "int dli_fail(void)\n{\n    return 0;\n}\nstatic int local(void)\n{\n    return 0;\n}\n",
}

WRONG_INCLUDES = {
    "engine includes redis": {"engine/x.c": '#include "redis/redis.h"\n'},
    "engine includes sys": {"engine/x.c": '#include "sys/sys.h"\n'},
    "engine reads a clock": {"engine/x.c": "#include <time.h>\n"},
    "engine has threads": {"engine/x.c": "#include <pthread.h>\n"},
    "base includes engine": {"base/x.c": '#include "engine/engine.h"\n'},
    "store includes an engine": {"store/x.c": '#include "redis/redis.h"\n'},
    "sys includes base": {"sys/x.c": '#include "base/error.h"\n'},
    "redis includes watchdog": {"redis/link/x.c": '#include "watchdog/watchdog.h"\n'},
    "link includes pipe": {"redis/link/x.c": '#include "redis/pipe/pipe.h"\n'},
    "codec includes link": {"redis/codec/x.c": '#include "redis/link/link.h"\n'},
    "cluster includes single": {"redis/cluster/x.c": '#include "redis/single/single.h"\n'},
    "watchdog includes client": {"watchdog/x.c": '#include "client/client.h"\n'},
    "client includes api": {"client/x.c": '#include "api/handles.h"\n'},
    "client beside the seam": {"client/x.c": '#include "redis/pipe/pipe.h"\n'},
    "a private header": {"redis/pipe/x.c": '#include "redis/link/config.h"\n'},
    "a private header of base": {"store/x.c": '#include "base/url_parts.h"\n'},
    "a room that nobody knows": {"odd/x.c": '#include "base/error.h"\n'},
    "watchdog opens sockets": {"watchdog/x.c": "#include <sys/socket.h>\n"},
    "api includes redis": {"api/x.c": '#include "redis/redis.h"\n'},
    "hiredis elsewhere": {"redis/link/x.c": "#include <hiredis/hiredis.h>\n"},
    "hiredis elsewhere, bare": {"redis/link/x.c": "#include <read.h>\n"},
    "OpenSSL elsewhere": {"redis/link/x.c": "#include <openssl/ssl.h>\n"},
    "thread outside sys": {"redis/link/x.c": "void dli_x(void)\n{\n    pthread_create(0, 0, 0, 0);\n}\n"},
    "public name outside api": {"base/x.c": "int dlock_x(void)\n{\n    return 0;\n}\n"},
    "export outside api": {"base/x.c": "DLOCK_API\nint x;\n"},
    "call into api": {"client/x.c": "void dli_x(void)\n{\n    int x = dli_y(dlock_x(1));\n}\n"},
    "call into api, bare": {"client/x.c": "void dli_x(void)\n{\n    dlock_x(1);\n}\n"},
    "name without dli_": {"base/x.c": "int name(void)\n{\n    return 0;\n}\n"},
    "etcd: a reader of answers": {"etcd/codec/x.c": '#include "wire.h"\n'},
    "etcd: protobuf-c reads": {"etcd/codec/x.c": "static void *f(void)\n{\n    return etcd__txn_response__unpack(0, 0, 0);\n}\n"},
    "Redis: a number that was not checked": {"redis/link/x.c": "static int f(const struct dli_reply *reply)\n{\n    return (int)reply->integer;\n}\n"},
    "etcd: an answer that was not checked": {"etcd/x.c": "static void f(void)\n{\n    dli_grpc_answer(0, 0);\n}\n"},
    "etcd: a sentence with its secrets": {"etcd/x.c": "static void f(void)\n{\n    puts(call->said);\n}\n"},
    "etcd: a number of text": {"etcd/x.c": "static void f(void)\n{\n    x = strtoll(text, 0, 10);\n}\n"},
    "a full folder": {f"base/x{number}.c": "" for number in range(46)},
}


def test_right_includes_pass(tmp_path: pathlib.Path) -> None:
    assert lint("includes", make_tree(tmp_path, FINE)) == ""


@pytest.mark.parametrize("files", WRONG_INCLUDES.values(), ids=WRONG_INCLUDES)
def test_wrong_includes_are_seen(tmp_path: pathlib.Path, files: dict[str, str]) -> None:
    assert lint("includes", make_tree(tmp_path, files)).count("\n") == 1


FINE_IDIOMS = {
    "base/text.c": "int size = vsnprintf(to, room, format, list);\n",
    "client/x.c": "for (struct dli_link *link = list->next; link != list; link = link->next)\n    x(link);\nwhile ((call = all)) {\n    all = call->next;\n    x(call);\n}\n",
    "zookeeper/link.c": "dli_zk_decode_answer(a, b, c);\n",
    "zookeeper/codec/x.c": "dli_zk_take_int(a, b);\n",
    "base/x.c": "/* size = snprintf() */\nvoid dli_x(void)\n{\n    if (a(b))\n        snprintf(to, sizeof to, \"%s;\", b(c));\n    else\n        snprintf(to, 2, \"(\");\n}\n",
}

WRONG_IDIOMS = {
    "a size is kept": "int x = snprintf(to, sizeof to, format);",
    "a size is added": "size += snprintf(to + size, sizeof to - size, format);",
    "a size is cast": "x((size_t)snprintf(to, sizeof to, format));",
    "a size is an argument": "x(to, snprintf(to, sizeof to, format));",
    "a size is returned": "return snprintf(to, sizeof to, format);",
    "a size is compared": "if (snprintf(to, sizeof to, format) > 3)\n    x();",
    "a size is thrown away by a cast": "(void)snprintf(to, sizeof to, format);",
    "a size is one of two": "x(), snprintf(to, sizeof to, format);",
    "a list is printed": "int x = vsnprintf(to, sizeof to, format, list);",
    "a text without a bound": "strcpy(to, from);",
    "a print without a bound": "sprintf(to, format);",
    "the next node is kept": "for (struct dli_link *link = list->next, *next; link != list; link = next)\n        next = link->next, x(link);",
    "under another name": "for (struct dli_link *link = list->next, *two; link != list; link = two)\n        two = link->next, x(link);",
    "of a chain": "while (call) {\n struct call *next = call->next; x(call); call = next; }",
    "an answer is decoded elsewhere": "dli_zk_decode_answer(a, b, c);",
    "a field of etcd is read elsewhere": "dli_etcd_wire_next(&wire, &field);",
    "bytes of etcd are looked at elsewhere": "bytes = dli_grpc_answer(call, &size);",
    "a number of Redis is read elsewhere": "token = reply->integer;",
    "a raw reply": "const struct dli_zk_reply *reply;",
    "raw numbers": "dli_zk_take_int(a, b);",
    "begun outside": "for (; link != list; link = next)\n        x(link);",
}


def test_right_idioms_pass(tmp_path: pathlib.Path) -> None:
    assert lint("idioms", make_tree(tmp_path, FINE_IDIOMS)) == ""


@pytest.mark.parametrize("statement", WRONG_IDIOMS.values(), ids=WRONG_IDIOMS)
@pytest.mark.parametrize("folder", ["src/client", "tools/dlock"])
def test_wrong_idioms_are_seen(tmp_path: pathlib.Path, folder: str, statement: str) -> None:
    make_tree(tmp_path, {})
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "x.c").write_text("void dli_x(void)\n{\n    " + statement + "\n}\n")
    assert lint("idioms", tmp_path).startswith(f"{folder}/x.c:")


CIRCLE = """static void f(int x);

/* f() */
static void g(int x)
{
    f(x);
}

static void f(int x)
{
    if (x)
        g(x - 1);
}
"""


def test_circles_of_calls_are_seen(tmp_path: pathlib.Path) -> None:
    make_tree(tmp_path, {"base/x.c": CIRCLE, "base/y.c": "void dli_y(void)\n{\n    dli_y();\n}\n"})
    said = lint("recursion", tmp_path)
    assert said.count("\n") == 2 and "f, g" in said and "dli_y calls itself" in said, said


def test_no_circles_pass(tmp_path: pathlib.Path) -> None:
    """Others of the name in other files, members, and comments are no calls."""
    files = {"base/x.c": CIRCLE.replace("g(x - 1)", "ops->g(x - 1)"), "base/y.c": "static void f(int x)\n{\n    (void)x;\n}\n\nvoid dli_y(void)\n{\n    f(1);\n}\n"}
    assert lint("recursion", make_tree(tmp_path, files)) == ""


def test_the_command_sees_the_public_header_alone(tmp_path: pathlib.Path) -> None:
    make_tree(tmp_path, {})
    (tmp_path / "tools/dlock").mkdir(parents=True)
    (tmp_path / "tools/dlock/tool.h").write_text("#include <dlock.h>\n")
    (tmp_path / "tools/dlock/main.c").write_text('#include "tool.h"\n')
    assert lint("includes", tmp_path) == ""
    (tmp_path / "tools/dlock/main.c").write_text('#include "client/client.h"\n')
    assert lint("includes", tmp_path).count("\n") == 1


def test_a_file_that_is_not_built_is_seen(tmp_path: pathlib.Path) -> None:
    make_tree(tmp_path, {"base/x.c": ""})
    (tmp_path / "src/meson.build").write_text("")
    assert "not in src/meson.build" in lint("includes", tmp_path)


def test_sizes(tmp_path: pathlib.Path) -> None:
    short = {f"base/short{n}.c": lines(10) for n in range(9)}
    make_tree(tmp_path, {**short, "base/long.c": lines(60), "api/file.c": "\n" * 600})
    assert lint("sizes", tmp_path) == ""


@pytest.mark.parametrize(
    "text, found", [(lines(61), "61 lines"), ("\n" * 601, "601 lines"), (lines(36), "1 of 1 functions")]
)
def test_sizes_are_seen(tmp_path: pathlib.Path, text: str, found: str) -> None:
    assert found in lint("sizes", make_tree(tmp_path, {"base/x.c": text}))


@pytest.mark.parametrize(
    "text", ["see /" + "home/me\n", "'/" + "tmp/x'\n", "(/" + "work)\n", "https://pypi" + ".org/x\n", "x \n", "x", "x\n\n"]
)
def test_texts_are_seen(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "README.md").write_text("fine: $root/tmp, a/work/b\n")
    assert lint("texts", tmp_path) == ""
    (tmp_path / "file.txt").write_text(text)
    assert lint("texts", tmp_path)


# ---- scripts

EMBED = str(ROOT / "src/redis/scripts/embed.py")
HEADER = (ROOT / "src/redis/scripts/scripts.h").read_text()
SCRIPTS = [name.lower() for name in re.findall(r"^    DLI_SCRIPT_(\w+),", HEADER, re.M)]
PRINT = """
#include <stdio.h>
#include "redis/scripts/scripts.h"
int main(int argc, char **argv)
{
    int form = argc > 1 ? argv[1][0] - '0' : DLI_FORM_PLAIN;

    for (int i = 0; i < DLI_SCRIPT_COUNT; i++) {
        const struct dli_script *script = dli_script_in(form, i);

        printf("%s %s %zu\\n", script->name, script->sha1, script->size);
        fwrite(script->text, 1, script->size, stdout);
    }
    return 0;
}
"""


def embedded(folder: pathlib.Path, scripts: list[pathlib.Path], form: int = 0) -> dict[str, tuple[str, bytes]]:
    """The content of the compiled file: name -> (sha1, text)."""
    generated, program = folder / "scripts_gen.c", folder / "print"
    subprocess.run([sys.executable, EMBED, str(generated), *map(str, scripts)], check=True)
    (folder / "print.c").write_text(PRINT)
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'src'}", "-o", str(program)]
    subprocess.run([*command, str(folder / "print.c"), str(generated)], check=True, env=clean_env())
    output = subprocess.run([str(program), str(form)], check=True, capture_output=True, env=clean_env()).stdout
    found = {}
    while output:
        head, _, rest = output.partition(b"\n")
        name, sha1, size = head.decode().split()
        found[name], output = (sha1, rest[: int(size)]), rest[int(size) :]
    return found


@pytest.mark.parametrize("form", range(3), ids=["plain", "sharded", "both"])
def test_the_server_knows_the_scripts_by_our_sha1(tmp_path: pathlib.Path, redis_server: Server, form: int) -> None:
    found = embedded(tmp_path, [path_of(name) for name in SCRIPTS], form)
    assert list(found) == SCRIPTS
    for sha1, text in found.values():
        assert redis_server.command("SCRIPT", "LOAD", text).decode() == sha1


def test_embedding(tmp_path: pathlib.Path) -> None:
    texts = {name: f"return {number}\n" for number, name in enumerate(SCRIPTS)}
    texts["acquire"] = '-- comment\n--@include part.lua\n\n  local b = "\\n??=%\\0"  \n  -- comment\nreturn a .. b -- stays\n'
    texts["part"] = "-- comment\nlocal a = '\t'\n"
    for name, text in texts.items():
        (tmp_path / f"{name}.lua").write_text(text)
    sha1, text = embedded(tmp_path, [tmp_path / f"{name}.lua" for name in SCRIPTS])["acquire"]
    assert text == b"local a = '\t'\n  local b = \"\\n??=%\\0\"\nreturn a .. b -- stays\n"
    assert sha1 == hashlib.sha1(text).hexdigest()


@pytest.mark.parametrize("text", ["--[[ long ]]\n", "--[==[ long\n]==]\n", "--@include acquire.lua\n", "--@include no.lua\n"])
def test_embedding_refuses(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "acquire.lua").write_text(text)
    command = [sys.executable, EMBED, str(tmp_path / "out.c"), str(tmp_path / "acquire.lua")]
    assert subprocess.run(command, capture_output=True).returncode != 0


# ---- ./dev


def test_what_an_installation_leaves_is_not_looked_at(tmp_path: pathlib.Path) -> None:
    """The README's lines make these folders in the tree."""
    for folder in ("out", "env/lib", "bindings/python/dlock.egg-info", "bindings/python/build"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "README").write_text("tail \n\n")
    assert lint("texts", tmp_path) == ""
    (tmp_path / "src/out").mkdir(parents=True)
    (tmp_path / "src/out/README").write_text("tail \n\n")
    assert lint("texts", tmp_path)


@pytest.mark.parametrize("words", [[], ["nonsense"], ["build", "--sanitize", "nonsense"], ["fuzz", "60", "1", "2"]])
def test_dev_says_how_it_is_used(tmp_path: pathlib.Path, words: list[str]) -> None:
    done = subprocess.run([str(ROOT / "dev"), *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "./dev test" in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["help"], *([word, "--help"] for word in ("build", "docs", "fuzz", "lint", "test"))])
def test_dev_helps(tmp_path: pathlib.Path, words: list[str]) -> None:
    done = subprocess.run([str(ROOT / "dev"), *words], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and "./dev fuzz [WORD...]" in done.stdout


def fuzz_targets(folder: pathlib.Path, *words: str) -> tuple[int, list[str], str]:
    """Which targets ./dev fuzz runs in a copy that runs nothing: the exit code, the targets, stderr."""
    shutil.copytree(ROOT / "python-tests/native/fuzz", folder / "python-tests/native/fuzz", dirs_exist_ok=True)
    text, count = re.subn(r"^run_fuzz\(\) \{\n", r'\g<0>    printf "target %s\\n" "$@"; return 0\n', (ROOT / "dev").read_text(), flags=re.M)
    text, more = re.subn(r"^(need|clang_packages)\(\) \{\n", r"\g<0>    return 0\n", text, flags=re.M)
    assert (count, more) == (1, 2)
    (folder / "dev").write_text(text)
    done = subprocess.run(["bash", str(folder / "dev"), "fuzz", *words], capture_output=True, text=True)
    return done.returncode, re.findall(r"^target (.*)$", done.stdout, re.M), done.stderr


def test_fuzz_by_name(tmp_path: pathlib.Path) -> None:
    assert fuzz_targets(tmp_path) == (0, ["60", "0"], "")
    assert fuzz_targets(tmp_path, "30", "7") == (0, ["30", "7"], "")
    assert fuzz_targets(tmp_path, "over_redis", "30", "7") == (0, ["30", "7", "fuzz_over_redis"], "")
    assert fuzz_targets(tmp_path, "zookeeper", "over_zoo", "etcd")[1] == ["60", "0", "fuzz_over_etcd", "fuzz_over_zookeeper", "fuzz_zookeeper"]
    code, targets, said = fuzz_targets(tmp_path, "nonsense")
    assert (code, targets) == (2, []) and '"nonsense"' in said and "fuzz_over_redis" in said and "fuzz_net" not in said


MESON = """project('any', 'c')
found = dependency('any_library', required: false, method: 'pkg-config').found()
configure_file(output: 'found', configuration: {'found': found})
"""


def test_dev_builds_with_what_was_installed_later(tmp_path: pathlib.Path) -> None:
    """As on a new machine: lint installs what it needs and builds, then test installs Lua."""
    root, libraries = tmp_path / "a tree", tmp_path / "pkgconfig"
    for folder in (root, libraries):
        folder.mkdir()
    shutil.copy(ROOT / "dev", root)
    (root / "meson.build").write_text(MESON)

    def found() -> bool:
        subprocess.run([str(root / "dev"), "build"], check=True, env={**os.environ, "PKG_CONFIG_LIBDIR": str(libraries)})
        return "#define found\n" in (root / "build/debug/found").read_text()

    assert not found()
    (libraries / "any_library.pc").write_text("Name: any\nDescription: any\nVersion: 1\n")
    assert found()


def test_dev_shell_env_can_be_evaluated(tmp_path: pathlib.Path) -> None:
    command = 'eval "$("$1" shell-env)" && echo "$DLOCK_LIBRARY"'
    done = subprocess.run(["bash", "-euc", command, "-", str(ROOT / "dev")], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == str(ROOT / "build/debug/libdlock.so.1")


CROSS = """[binaries]
c = ['gcc', '-m{bits}']
ar = 'ar'
pkg-config = 'pkg-config'
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its compiler can be asked for 32 bits")
def test_32_bits_are_refused(tmp_path: pathlib.Path) -> None:
    for bits in (32, 64):
        (tmp_path / "cross.ini").write_text(CROSS.format(bits=bits))
        done = subprocess.run(["meson", "setup", tmp_path / str(bits), ROOT, "--cross-file", tmp_path / "cross.ini"], text=True, capture_output=True)
        assert ("needs a processor and a compiler with 64-bit pointers" in done.stdout) == (bits == 32), done.stdout
