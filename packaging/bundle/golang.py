#!/usr/bin/env python3
"""golang.py BUNDLE MODULE [VERSION PROXY]: put the bundle into a copy of bindings/go, and pack that as a module proxy has it.

The sources go to internal/libdlock, as they are. Each folder of them becomes a Go package, which cgo compiles: so Go builds folders in
parallel, keeps what is built, and `go mod vendor` takes all of them along. PROXY gets the files of the version.
"""
from __future__ import annotations

import datetime
import os
import pathlib
import shutil
import sys
import zipfile

PATH = "github.com/libdlock/libdlock/bindings/go"
KEPT = {".c", ".h", ".txt", ".map", ""}  # files of the bundle
HEAD = "//go:build dlock_static\n\n// Package {name} is a part of libdlock's C sources. Written by packaging/bundle/golang.py; DO NOT EDIT.\npackage {name}\n"


def cgo_flags(flags: list[str], depth: int) -> str:
    """The flags of the bundle, with paths from a folder at this depth. Static: nothing is exported, so DLOCK_API stays empty."""
    top, words = "${SRCDIR}" + "/.." * depth, []
    for word in flags:
        if word.startswith("-I"):
            words.append(f"-I{top}/{word[2:]}".removesuffix("/."))
        elif word.endswith(".h"):
            words.append(f"{top}/{word}")
        elif not word.startswith("-DDLOCK_API"):
            words.append(word)
    return " ".join(["-O2", "-g0", *words])


def package(folder: pathlib.Path, top: pathlib.Path, flags: list[str]) -> None:
    """The Go file of one folder of sources."""
    name = folder.name.replace("-", "_")
    text = HEAD.format(name=name)
    if list(folder.glob("*.c")):
        text += f'\n// #cgo CFLAGS: {cgo_flags(flags, len(folder.relative_to(top).parts))}\nimport "C"\n'
    (folder / f"{name}.go").write_text(text)


def fill(bundle: pathlib.Path, module: pathlib.Path) -> None:
    top = module / "internal/libdlock"
    for path in bundle.rglob("*"):
        if path.is_file() and path.suffix in KEPT and path.name != "Makefile":
            target = top / path.relative_to(bundle)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    flags = (top / "flags.txt").read_text().split()
    folders = sorted({path.parent for path in top.rglob("*.[ch]")} - {top})
    for folder in folders:
        package(folder, top, flags)
    imports = "".join(f'\t_ "{PATH}/internal/libdlock/{folder.relative_to(top)}"\n' for folder in folders)
    (top / "sources.go").write_text(f"//go:build dlock_static\n\n// Written by packaging/bundle/golang.py; DO NOT EDIT.\n\npackage libdlock\n\nimport (\n{imports})\n")


def pack(module: pathlib.Path, version: str, proxy: pathlib.Path) -> None:
    """PATH/@v/list and the .info, .mod and .zip of the version. Modules in folders of the module are not part of it."""
    folder = proxy / PATH / "@v"
    folder.mkdir(parents=True, exist_ok=True)
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    (folder / "list").write_text(f"v{version}\n")
    (folder / f"v{version}.info").write_text(f'{{"Version":"v{version}","Time":"{when:%Y-%m-%dT%H:%M:%SZ}"}}\n')
    shutil.copyfile(module / "go.mod", folder / f"v{version}.mod")
    others = [path.parent for path in module.glob("*/go.mod")]
    with zipfile.ZipFile(folder / f"v{version}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(module.rglob("*")):
            if path.is_file() and not any(other in path.parents for other in others):
                entry = zipfile.ZipInfo(f"{PATH}@v{version}/{path.relative_to(module)}", when.timetuple()[:6])
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) not in (3, 5):
        sys.exit(__doc__)
    fill(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    if len(sys.argv) == 5:
        pack(pathlib.Path(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]))
