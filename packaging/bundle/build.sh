#!/usr/bin/env bash
# build.sh [PLATFORM...]: the self-contained library for other people's machines: build/bundle/PLATFORM/libdlock.so.1 and libdlock.a.
# PLATFORM: x86_64 and aarch64, both for glibc 2.17 and newer (default: both). build/bundle/libdlock has the bundle of sources itself.
#
# The compiler is Zig's clang from PyPI, which brings the headers and symbols of old glibc for both platforms. README.md says what is
# inside and why. Needs what ./dev build needs, and for aarch64 binutils-aarch64-linux-gnu.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
work=$root/build/bundle
tools=$work/tools
glibc=2.17

export PATH=/usr/sbin:/usr/bin:/sbin:/bin ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig

library() {
    local platform=$1 out=$work/$1 binutils=""
    if [ "$platform" != "$(uname -m)" ]; then binutils=$platform-linux-gnu-; fi
    make --silent -C "$work/libdlock" -j "$(nproc)" shared static OUT="$out" LDFLAGS=-Wl,-s \
        CC="$tools/bin/python -m ziglang cc -target $platform-linux-gnu.$glibc" \
        LD="${binutils}ld" OBJCOPY="${binutils}objcopy" AR="${binutils}ar"
    "$root/packaging/hardened.py" "$out/libdlock.so.1"
    echo "$out: $(cd "$out" && stat -c '%n %s bytes' libdlock.so.1 libdlock.a | paste -sd ,)"
}

mkdir -p "$work"
exec 9>"$work/.lock"
flock 9
"$root/packaging/pinned.sh" "$tools" zig # the same compiler makes the same bytes
/usr/bin/python3 "$root/packaging/bundle/make.py" "$work/libdlock" "$work"
if [ "$#" = 0 ]; then set -- x86_64 aarch64; fi
for platform in "$@"; do library "$platform"; done
