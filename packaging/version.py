#!/usr/bin/env python3
"""version.py [X.Y.Z [DATE]]: without a version, print the one of this tree, and fail when a file has another. With one, write it everywhere.

meson.build is the place of the version. Files that other tools read without meson repeat it: PLACES has them. DATE: of Debian's
changelog, in the form of RFC 2822.
"""
from __future__ import annotations

import email.utils
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROCK = "bindings/lua/dlock-%s-1.rockspec"
# A file, and the text around the version; each must be there exactly as often as it is listed.
PLACES = [
    ("meson.build", "  version: '%s',\n"),
    ("src/api/library.c", 'return "%s";'),
    ("src/api/library.c", "MAJOR = %M, MINOR = %m, PATCH = %p "),
    ("bindings/python/dlock/_lib.py", 'VERSION = "%s"'),
    ("bindings/lua/dlock.lua", 'VERSION = "%s"'),
    (ROCK, 'version = "%s-1"'),
    (ROCK, "libdlock-%s.tar.gz"),
    (ROCK, '"libdlock-%s/bindings/lua"'),
    ("bindings/rust/dlock/Cargo.toml", '\nversion = "%s"\n'),
    ("bindings/rust/dlock/Cargo.toml", 'dlock-sys = { version = "%s"'),
    ("bindings/rust/dlock-sys/Cargo.toml", '\nversion = "%s"\n'),
    ("bench/rust/Cargo.lock", '\nname = "dlock"\nversion = "%s"\n'),
    ("bench/rust/Cargo.lock", '\nname = "dlock-sys"\nversion = "%s"\n'),
    ("bindings/node/package.json", '\n  "version": "%s"'),
    ("docs/getting-started.md", "bindings/go@v%s"),
    ("docs/getting-started.md", 'path = "dlock-%s"'),
    ("docs/getting-started.md", 'path = "dlock-sys-%s"'),
    ("docs/getting-started.md", "/node/dlock-%s.tgz"),
    ("packaging/rpm/libdlock.spec", "Version:        %s\n"),
    ("packaging/alpine/APKBUILD", "pkgver=%s\n"),
    ("packaging/recipes/vcpkg/vcpkg.json", '"version": "%s"'),
    ("packaging/recipes/conan/conanfile.py", '    version = "%s"\n'),
    ("packaging/recipes/wrap/dlock.wrap", "directory = libdlock-%s\n"),
    ("packaging/recipes/wrap/dlock.wrap", "/v%s/"),
    ("packaging/recipes/wrap/dlock.wrap", "source_filename = libdlock-%s.tar.xz"),
    ("packaging/recipes/wrap/dlock.wrap", "/libdlock-%s.tar.xz\n"),
    ("packaging/recipes/homebrew/libdlock.rb", "/v%s/libdlock-"),
    ("packaging/recipes/homebrew/libdlock.rb", '/libdlock-%s.tar.xz"'),
    ("packaging/debian/changelog", "libdlock (%s-1) "),
]
VERSION = r"\d+\.\d+\.\d+"


def current(root: pathlib.Path = ROOT) -> str:
    match = re.search(rf"^  version: '({VERSION})',$", (root / "meson.build").read_text(), re.M)
    if not match:
        sys.exit("meson.build has no version")
    return match[1]


def filled(text: str, version: str) -> str:
    major, minor, patch = version.split(".")
    return text.replace("%s", version).replace("%M", major).replace("%m", minor).replace("%p", patch)


def wrong(root: pathlib.Path = ROOT) -> list[str]:
    """What does not have the version of meson.build."""
    version, found = current(root), []
    for path, text in PLACES:
        file = root / filled(path, version)
        if not file.exists() or filled(text, version) not in file.read_text():
            found.append(f"{path}: no {(filled(text, version)).strip()}")
    return found


def write(version: str, date: str, root: pathlib.Path = ROOT) -> None:
    old = current(root)
    if version == old:
        return
    (root / filled(ROCK, old)).rename(root / filled(ROCK, version))
    for path, text in PLACES:
        file = root / filled(path, version)
        if path == "packaging/debian/changelog":
            continue
        before = file.read_text()
        if filled(text, old) not in before:
            sys.exit(f"{path}: no {(filled(text, old)).strip()}")
        file.write_text(before.replace(filled(text, old), filled(text, version)))
    changes = root / "packaging/debian/changelog"
    last = changes.read_text()
    who = re.search(r"^ -- (.* <.*>)  ", last, re.M)
    assert who, "Debian's changelog has no author"
    changes.write_text(f"libdlock ({version}-1) unstable; urgency=medium\n\n  * New release.\n\n -- {who[1]}  {date}\n\n" + last)


def main() -> None:
    if len(sys.argv) > 3 or (sys.argv[1:] and not re.fullmatch(VERSION, sys.argv[1])):
        sys.exit(__doc__)
    if sys.argv[1:]:
        write(sys.argv[1], sys.argv[2] if sys.argv[2:] else email.utils.formatdate())
    if bad := wrong():
        sys.exit("\n".join(bad))
    print(current())


if __name__ == "__main__":
    main()
