#!/usr/bin/env bash
# python.sh [PLATFORM...]: Python's source distribution and wheels, into build/packages/python. PLATFORM: x86_64, aarch64 (default: both).
#
# One wheel for all Pythons of a platform: the binding is pure Python, the library is that of packaging/bundle/build.sh. auditwheel
# checks each wheel and gives it its tag.
#
# Clean roots try them with packaging/smoke: the wheel of this machine's platform in each release of SUITES, and the other one under
# qemu, both without a compiler; the source distribution where only a C compiler is. SUITES="" leaves that out; else it needs root.
# needs: binutils-aarch64-linux-gnu python3-venv
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
bundle=$root/build/bundle
rooms=$root/build/rooms
suites=${SUITES-bookworm trixie}
HOME_INSIDE=~root
source=$root/build/packages/source/python
out=$root/build/packages/python
tools=$bundle/tools

export PATH=/usr/sbin:/usr/bin:/sbin:/bin SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}

if [ "$#" = 0 ]; then set -- x86_64 aarch64; fi
"$root/packaging/bundle/build.sh" "$@"
"$root/packaging/pinned.sh" "$tools" python

rm -rf "$source" "$out"
mkdir -p "$source" "$out"
tar -C "$root/bindings/python" --exclude=__pycache__ --exclude=build --exclude='*.egg-info' -cf - . | tar -C "$source" -xf -
cp -R "$bundle/libdlock" "$source/libdlock"
echo "graft libdlock" >"$source/MANIFEST.in"

python() { (cd "$source" && "$tools/bin/python" -m build --no-isolation "$@" >"$out/build.log" 2>&1) || { cat "$out/build.log"; exit 1; }; }
python --sdist --outdir "$source/dist"
for file in "$source"/dist/*.tar.gz; do # setuptools puts the time of the build into it
    mkdir "$source/sdist"
    tar -C "$source/sdist" -xf "$file"
    tar -C "$source/sdist" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -cf - "$(ls "$source/sdist")" |
        gzip -9n >"$out/${file##*/}" # no entry for "." at its head: pip takes the first one for the folder of all
done
for platform in "$@"; do
    rm -rf "$source/build"
    DLOCK_BUNDLE=$bundle/$platform/libdlock.so.1 DLOCK_PLATFORM=linux-$platform python --wheel --outdir "$source/dist"
    PATH=$tools/bin:$PATH auditwheel repair --plat auto --wheel-dir "$out" "$source"/dist/*"$platform.whl"
    PATH=$tools/bin:$PATH auditwheel show "$out"/*"$platform.whl"
done
rm -f "$out/build.log"
for wheel in "$out"/*.whl; do
    /usr/bin/python3 -m zipfile -e "$wheel" "$source/unpacked/${wheel##*/}"
    "$root/packaging/hardened.py" "$source/unpacked/${wheel##*/}"
done
(cd "$out" && sha256sum -- *.whl *.tar.gz | tee SHA256SUMS)

# room SUITE PACKAGE...: a clean root with what was built and with an environment of Python that has pip.
room() {
    room=$rooms/python-$1
    clean_root "$1" "$room"
    install_in "$room" redis-server python3-venv "${@:2}"
    mkdir -p "$room/srv"
    cp "$out"/* "$room/srv"
    cp -R "$root/packaging/smoke" "$room/srv/smoke"
    inside "$room" /srv python3 -m venv env
}

smoke() { # LABEL FOLDER: with the python3 in that folder
    inside "$room" /srv PATH="$2:/usr/sbin:/usr/bin:/sbin:/bin" smoke/smoke.sh python
    echo "-- $1 works"
    rm -rf --one-file-system "$room"
}

try_wheel() {
    room "$1"
    no_compiler "$room"
    inside "$room" /srv sh -ec "env/bin/pip install --quiet --no-index ./*$(uname -m).whl"
    smoke "$1, $(uname -m): the wheel" /srv/env/bin
}

try_source() {
    room "$1" gcc libc6-dev
    inside "$room" /srv sh -ec 'env/bin/pip install --quiet ./*.tar.gz'
    "$root/packaging/hardened.py" "$room"/srv/env/lib/python3*/site-packages/dlock
    smoke "$1: the source distribution" /srv/env/bin
}

try_foreign() {
    local suite=$1 platform=$2 arch=$3
    room=$rooms/python-$suite-$arch
    clean_root "$suite" "$room"
    install_in "$room" redis-server python3-venv
    foreign "$room" "$platform" "$arch" python3 python3 PYTHONPATH=/srv/wheel
    no_compiler "$room"
    cp "$out"/*"$platform.whl" "$room/srv"
    cp -R "$root/packaging/smoke" "$room/srv/smoke"
    # shellcheck disable=SC2016 # for the shell inside
    inside "$room" /srv sh -ec 'python3 -m venv env
        env/bin/pip install --quiet --no-index --only-binary=:all: --platform "manylinux2014_$1" --target wheel ./*.whl' - "$platform"
    inside "$room" /srv bin/python3 -c 'import platform; print("-- Python", platform.python_version(), platform.machine())'
    smoke "$suite, $platform under qemu: the wheel" /srv/bin
}

[ -n "$suites" ] || exit 0
[ "$(id -u)" = 0 ] || fail "root folders need root"
mkdir -p "$rooms"
exec 9>"$rooms/.python.lock"
flock 9
for platform in "$@"; do
    if [ "$platform" = "$(uname -m)" ]; then
        for suite in $suites; do
            try_wheel "$suite"
            try_source "$suite"
        done
    elif [ "$platform" = aarch64 ]; then
        try_foreign "${suites%% *}" aarch64 arm64
    fi
done
