#!/usr/bin/env python3
"""static.py LIBRARY FOLDER OBJECT...: a static library of one object, in which hidden names are local: a program that links it sees dlock_* alone.

LD, OBJCOPY and AR name other tools, for another platform.
"""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys


def run(tool: str, default: str, *words: str) -> None:
    subprocess.run([*os.environ.get(tool, default).split(), *words], check=True)


def main(library: str, folder: str, *objects: str) -> None:
    place = pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    whole = str(place / "dlock.o")
    pathlib.Path(library).unlink(missing_ok=True)
    run("LD", "ld", "-r", "-o", whole, *objects)
    run("OBJCOPY", "objcopy", "--localize-hidden", whole)
    run("AR", "ar", "rcsD", library, whole)


if __name__ == "__main__":
    main(*sys.argv[1:])
