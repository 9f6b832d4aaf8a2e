#!/usr/bin/env bash
# pinned.sh FOLDER LIST...: a virtual environment of Python with the tools of packaging/pinned/LIST.txt, in the order of the lists.
#
# A list names every package, its version and the SHA-256 of its files, so no tool is other bytes than those that were tried. Nothing is
# fetched to build a tool: it comes as a wheel, or is built with what an earlier list has. To renew the lists, run in packaging/pinned, with
# pip-tools under Python 3.11, for each: pip-compile --generate-hashes --allow-unsafe --no-header --no-annotate --no-emit-index-url
# --no-emit-find-links --strip-extras --upgrade -o LIST.txt LIST.in
set -euo pipefail

lists=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/pinned" && pwd -P)
folder=$1
shift
for list in "$@"; do
    if cmp -s "$lists/$list.txt" "$folder/$list.txt"; then continue; fi
    if ! [ -x "$folder/bin/pip" ]; then /usr/bin/python3 -m venv "$folder"; fi
    "$folder/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --no-build-isolation -r "$lists/$list.txt"
    cp "$lists/$list.txt" "$folder"
done
