"""Parts of src/base that have no I/O: numbers that do not run over, text that does not leave its room, walks that survive. The tests are in
native/base. Each finds defects that are seeded into a copy.
"""
from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from harness.build import ROOT, clean_env, native

DEFECTS = {
    "the size is the one that the text would have had": ("texts", "text.c", "text->size += size < left ? size : left;", "text->size += size;"),
    "what was cut is not seen": ("texts", "text.h", "return text->whole > text->size;", "return text->whole > text->size + 1;"),
    "half of it is written": ("texts", "text.c", "    if (room > 0)\n        out[0] = '\\0';\n    return 0;", "    return text.size;"),
    "a walk keeps its next node": ("lists", "list.c", "if (walk->next == link)", "if (walk->next == link && walk->next == walk->last)"),
    "a walk keeps its last node": ("lists", "list.c", "if (walk->last == link)", "if (!walk->last)"),
    "outer walks do not hear": ("lists", "list.c", "walk; walk = walk->outer) {", "walk; walk = NULL) {"),
    "a sum stops at the wrong end": ("numbers", "number.h", "(b < 0 ? INT64_MIN : INT64_MAX) : sum", "(b > 0 ? INT64_MIN : INT64_MAX) : sum"),
    "a product stops at the wrong end": ("numbers", "number.h", "(a < 0) == (b < 0)", "(a < 0) != (b < 0)"),
}


@pytest.mark.parametrize("part", ["lists", "numbers", "secrets", "texts"])
def test_base(part: str) -> None:
    done = subprocess.run([native("base"), part], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.no_tsan
@pytest.mark.parametrize("part, name, old, new", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_found(tmp_path: pathlib.Path, part: str, name: str, old: str, new: str) -> None:
    folder = pathlib.Path(shutil.copytree(ROOT / "src/base", tmp_path / "base"))
    source = (folder / name).read_text()
    assert source.count(old) == 1
    (folder / name).write_text(source.replace(old, new))
    sources = [*sorted((ROOT / "python-tests/native/base").glob("*.c")), *sorted(folder.glob("*.c"))]
    includes = [f"-I{tmp_path}", f"-I{ROOT / 'python-tests/native'}", f"-I{ROOT / 'src'}", f"-I{ROOT / 'abi'}"]
    subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-fsanitize=address", *includes, *sources, "-o", tmp_path / "program"], check=True, env=clean_env())
    done = subprocess.run([tmp_path / "program", part], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    assert done.returncode != 0
