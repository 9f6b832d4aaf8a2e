"""What makes attacks harder is in the files of the build, and packaging/hardened.py sees when it is missing."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from harness.build import BUILD, LIBRARY, ROOT, clean_env
from harness.compilers.node import Tool as Node
from harness.scenarios import NO_NODE

sys.path.insert(0, str(ROOT / "packaging"))
import hardened  # noqa: E402

pytestmark = [pytest.mark.house, pytest.mark.timeout(300)]


def run(*words: Any, cwd: pathlib.Path, **env: str) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=clean_env(**env), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


# ---- the build


@pytest.mark.parametrize("path", [LIBRARY, BUILD / "tools/dlock/dlock"], ids=["library", "command"])
def test_what_is_installed(path: pathlib.Path) -> None:
    assert hardened.problems(path) == []


def test_every_program_of_the_build() -> None:
    """Also those that are not installed, as far as the linker does it."""
    programs = [path for path in BUILD.rglob("*") if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK) and hardened.is_elf(path)]
    programs = [path for path in programs if "meson-private" not in path.parts]
    assert len(programs) > 10
    assert [f"{path} {problem}" for path in programs for problem in hardened.layout_problems(path)] == []


@NO_NODE
def test_the_addon_of_node() -> None:
    assert hardened.problems(Node().folder / "dlock.node") == []


def levels(build: pathlib.Path) -> set[tuple[str, str]]:
    """What is installed, and the last word about fortification in the commands that compile it."""
    commands = json.loads((build / "compile_commands.json").read_text())
    found = set()
    for entry in commands:
        if entry["output"].startswith(("libdlock_internal", "tools/dlock/")):
            words = re.findall(r"-([UD])_FORTIFY_SOURCE(?:=(\d))?", entry["command"])
            found.add((entry["output"].split(".")[0], words[-1][1] if words and words[-1][0] == "D" else "none"))
    return found


PARTS = ("libdlock_internal", "tools/dlock/dlock", "tools/dlock/libdlock_tool")


def highest(folder: pathlib.Path) -> str:
    """The highest level that the compiler and the C library have."""
    probe = folder / "probe.c"
    probe.write_text("#include <stdlib.h>\n#ifdef __USE_FORTIFY_LEVEL\nlevel __USE_FORTIFY_LEVEL\n#endif\n")
    text = run("cc", "-O2", "-w", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-E", "-P", probe, cwd=folder)
    return (re.findall(r"^level (\d)$", text, re.M) or ["3"])[0]


def test_the_level_of_fortification(tmp_path: pathlib.Path) -> None:
    assert levels(BUILD) == {(part, highest(tmp_path)) for part in PARTS}


@pytest.mark.parametrize(
    "options, env, level",
    [
        (["--buildtype=plain"], {"CFLAGS": "-O2 -g", "CPPFLAGS": "-D_FORTIFY_SOURCE=2"}, ""),
        (["--buildtype=plain"], {"CFLAGS": "-O2 -g -Wp,-D_FORTIFY_SOURCE=2"}, "2"),
        (["--buildtype=debug"], {}, "none"),
        (["--buildtype=release", "-Db_sanitize=address", "-Db_lundef=false"], {}, "none"),
    ],
    ids=["a distribution's own flags", "a distribution's own way", "no optimisation", "a sanitizer"],
)
def test_fortification_where_others_have_a_say(tmp_path: pathlib.Path, options: list[str], env: dict[str, str], level: str) -> None:
    """One file is compiled, with warnings as errors: a level that is named twice, or that cannot be had, is a warning."""
    build = tmp_path / "build"
    run("meson", "setup", build, ROOT, "-Dtests=false", "-Ddemo=false", "-Dman=disabled", "-Dwerror=true", *options, cwd=tmp_path, **env)
    assert levels(build) == {(part, level or highest(tmp_path)) for part in PARTS}
    run("ninja", "-C", build, "libdlock_internal.a.p/src_base_id.c.o", cwd=tmp_path)


# ---- the checker

PROGRAM = """
#include <stdio.h>
void fill(char *text, size_t room, const char *from) { fprintf(stderr, "%s %zu %s", text, room, from); }
int main(int count, char **words) { char text[64]; fill(text, sizeof text, words[count - 1]); return 0; }
int a(void) { return 1; } int b(void) { return 2; } int c(void) { return 3; } int d(void) { return 4; } int e(void) { return 5; }
"""
GOOD = ("-O2 -g -fPIE -pie -fstack-protector-all -fstack-clash-protection -fcf-protection=full -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 "
        "-Wl,-z,relro,-z,now,-z,noexecstack").split()  # fmt: skip
MISSING = {
    "": [],
    "-fno-pie -no-pie": ["is at a fixed address (no PIE)"],
    "-Wl,-z,norelro": ["has no RELRO"],
    "-Wl,-z,lazy": ["has partial RELRO (no -z now)"],
    "-Wl,-z,execstack": ["has an executable stack", "has a segment that is writable and executable"],
    "-Wl,-rpath,/somewhere": ["is searched for libraries elsewhere"],
    "-Wl,-rpath,$ORIGIN": [],
    "-fno-stack-protector": ["has no stack protectors"],
    "-U_FORTIFY_SOURCE": ["calls functions, and none is fortified: fprintf"],
    "-fcf-protection=none": ["has functions that are no marked targets (CET, BTI)"],
    "-fno-stack-clash-protection": ["has code without -fstack-clash-protection: src/program.c"],
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the compiler's options are those for x86-64")
@pytest.mark.parametrize("options", MISSING)
def test_what_is_missing_is_seen(tmp_path: pathlib.Path, options: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/program.c").write_text(PROGRAM)
    run("gcc", *GOOD, *options.split(), "src/program.c", "-o", "program", cwd=tmp_path)
    assert hardened.problems(tmp_path / "program") == MISSING[options]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the code is that of x86-64")
def test_text_relocations_and_writable_code_are_seen(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one.c").write_text('extern int other; __asm__(".text\\n.quad other\\n"); int one(void) { return 1; }\n')
    run("gcc", *[word for word in GOOD if word != "-pie"], "-fPIC", "-shared", "-Wl,-z,notext", "one.c", "-o", "text.so", cwd=tmp_path)
    assert "has text relocations" in hardened.layout_problems(tmp_path / "text.so")
    (tmp_path / "two.c").write_text('__attribute__((section("code,\\"awx\\",@progbits#"))) int two = 2; int main(void) { return two; }\n')
    run("gcc", *GOOD, "two.c", "-o", "writable", cwd=tmp_path)
    assert hardened.layout_problems(tmp_path / "writable") == ["has a segment that is writable and executable"]


def test_the_checker_as_a_program(tmp_path: pathlib.Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    run("gcc", "-O0", "program.c", "-o", "program", cwd=tmp_path)
    done = subprocess.run([sys.executable, ROOT / "packaging/hardened.py", tmp_path], text=True, capture_output=True)
    assert done.returncode == 1 and "program has" in done.stderr, done
    assert "hardened: libdlock.so.1" in run(sys.executable, ROOT / "packaging/hardened.py", LIBRARY, cwd=tmp_path)
    done = subprocess.run([sys.executable, ROOT / "packaging/hardened.py", tmp_path / "program.c"], text=True, capture_output=True)
    assert done.returncode == 1 and "no ELF file" in done.stderr, done


@pytest.mark.parametrize("script", ["package/debian.sh", "package/rpm.sh", "package/python.sh", "package/node.sh", "package/alpine.sh", "bundle/build.sh"])
def test_packages_are_checked(script: str) -> None:
    """./dev package reads them from the files that it packs."""
    assert "packaging/hardened.py" in (ROOT / "packaging" / script).read_text()
