#!/usr/bin/env bash
# alpine.sh: libdlock for musl, as Alpine has it, into build/packages/alpine: built with musl's toolchain and tested here.
#
# Debian has no libraries for musl, so hiredis, nghttp2 and protobuf-c are compiled from the bundle's sources, and TLS is left out. The
# native tests of meson run, then packaging/smoke with a program in C, linked dynamically and statically, and the command. The
# recipe for Alpine itself is packaging/alpine/APKBUILD; nothing here has run it but a shell that reads it.
# needs: musl-tools redis-server
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
work=$root/build/musl
out=$root/build/packages/alpine
bundle=$work/libdlock
prefix=$work/prefix
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset CC CFLAGS LDFLAGS

# The kernel's headers are not musl's, so musl-gcc does not see them.
headers() {
    mkdir -p "$prefix/include"
    ln -sfn /usr/include/linux "$prefix/include/linux"
    ln -sfn /usr/include/asm-generic "$prefix/include/asm-generic"
    ln -sfn "/usr/include/$(gcc -print-multiarch)/asm" "$prefix/include/asm"
}

# vendored NAME LIBRARY VERSION HEADERS: a static library of the bundle's copy, its headers and its pkg-config file.
vendored() {
    local name=$1 library=$2 version=$3 headers=$4 flags file
    local -a objects=()
    flags=$(sed "s/.*/'&'/" "$bundle/flags.txt" | tr '\n' ' ')
    while IFS= read -r file; do
        objects+=("$work/objects/${file//\//_}.o")
        (cd "$bundle" && eval "musl-gcc -O2 $flags -DDLI_PLAIN_NAMES -c -o '${objects[-1]}' '$file'")
    done < <(grep "^third_party/$name/" "$bundle/sources.txt")
    ar rcsD "$prefix/lib/lib$library.a" "${objects[@]}"
    printf 'Name: %s\nDescription: from the bundle\nVersion: %s\nLibs: -L%s -l%s\nCflags: -I%s -I%s\n' \
        "$name" "$version" "$prefix/lib" "$library" "$prefix/include" "$prefix/include/$name" >"$prefix/lib/pkgconfig/${5:-$library}.pc"
    mkdir -p "$prefix/include/$name"
    cp -R "$bundle/third_party/$name/$headers/." "$prefix/include/$name"
}

version() { sed -n "s/^$1_\([0-9.]*\).*/\1/p" "$bundle/versions.txt"; }

rm -rf "$work" "$out"
mkdir -p "$prefix/lib/pkgconfig" "$work/objects" "$out"
/usr/bin/python3 "$root/packaging/bundle/make.py" "$bundle" "$root/build/bundle"
headers
vendored hiredis hiredis "$(version hiredis)" .
vendored nghttp2 nghttp2 "$(version nghttp2)" lib/includes/nghttp2 libnghttp2
vendored protobuf-c protobuf-c "$(version protobuf-c)" protobuf-c libprotobuf-c

printf "[binaries]\nc = 'musl-gcc'\npkg-config = 'pkg-config'\n[built-in options]\nc_args = ['-isystem', '%s', '-DNGHTTP2_STATICLIB']\n" "$prefix/include" >"$work/musl.ini"
PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig meson setup "$work/build" "$root" --native-file "$work/musl.ini" --buildtype=release --prefix=/usr \
    --libdir=lib -Dwerror=true -Dtls=disabled -Detcd=enabled -Dstatic=true -Dman=disabled -Dprefer_static=true >"$work/meson.log" || { cat "$work/meson.log"; exit 1; }
ninja --quiet -C "$work/build" libdlock.so.1 libdlock.a tools/dlock/dlock meson-test-prereq >"$work/ninja.log" || { cat "$work/ninja.log"; exit 1; }
meson test -C "$work/build" --no-rebuild --print-errorlogs
DESTDIR=$work/installed meson install -C "$work/build" --no-rebuild --quiet
tar -C "$work/installed" --sort=name --owner=0 --group=0 --mtime=@"$(git -C "$root" log -1 --format=%ct)" -cJf "$out/libdlock-musl-$(uname -m).tar.xz" .

installed=$work/installed/usr
"$root/packaging/hardened.py" --musl "$installed"
musl-gcc -Wall -Werror -I"$installed/include" "$root/packaging/smoke/smoke.c" -o "$work/smoke" "$installed/lib/libdlock.so.1" -Wl,-rpath,"$installed/lib"
musl-gcc -static -Wall -Werror -I"$installed/include" "$root/packaging/smoke/smoke.c" -o "$work/smoke-static" "$installed/lib/libdlock.a" \
    -L"$prefix/lib" -lhiredis -lnghttp2 -lprotobuf-c
if readelf -dW "$installed/lib/libdlock.so.1" | grep NEEDED | grep -v '\[libc.so\]'; then
    echo "alpine.sh: the library needs more than musl" >&2
    exit 1
fi
printf '%s\n' "$installed/lib" >"$work/ld.path"
"$root/packaging/smoke/smoke.sh" "$work/smoke" "$work/smoke-static"
sh -n "$root/packaging/alpine/APKBUILD"
(cd "$out" && sha256sum -- *.tar.xz | tee SHA256SUMS)
