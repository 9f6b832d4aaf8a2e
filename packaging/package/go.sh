#!/usr/bin/env bash
# go.sh: Go's module with the library's sources inside, as a module proxy has it, into build/packages/go.
#
# With -tags dlock_static cgo compiles the bundle of packaging/bundle: packaging/bundle/golang.py says how. Without it the module finds
# the installed library by pkg-config.
#
# Clean roots of the releases in SUITES try both with packaging/smoke: the first one where only Go and a C compiler are. SUITES="" leaves
# that out; else it needs root.
# needs: git
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
bundle=$root/build/bundle/libdlock
rooms=$root/build/rooms
suites=${SUITES-bookworm trixie}
HOME_INSIDE=~root
source=$root/build/packages/source/go
out=$root/build/packages/go
module=github.com/libdlock/libdlock/bindings/go
version=$("$root/packaging/version.py")

export PATH=/usr/sbin:/usr/bin:/sbin:/bin SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}

"$root/packaging/bundle/make.py" "$bundle" "$root/build/bundle"
rm -rf "$source" "$out"
mkdir -p "$source" "$out"
cp -R "$root/bindings/go/." "$source"
cp "$root/LICENSE" "$source"
"$root/packaging/bundle/golang.py" "$bundle" "$source" "$version" "$out"
(cd "$out" && find . -name '*.zip' -printf '%P: %s bytes\n' && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum -- >SHA256SUMS)

# program NAME FLAGS...: a program in a module of its own, which gets the binding from the files of the proxy.
# shellcheck disable=SC2016 # for the shell inside
program() {
    inside "$room" /srv GOPROXY=file:///srv/proxy GOSUMDB=off GOFLAGS="${*:2}" sh -ec 'mkdir "$1"; cd "$1"; cp ../smoke/smoke.go .
        go mod init smoke >init.log 2>&1; go get "$2"; start=$(date +%s); go build -o smoke .; echo "-- $1: built in $(($(date +%s) - start)) s"' - "$1" "$module@v$version"
}

# The library in a compiled program: it runs, and asks the loader for nothing but the C library.
try_static() {
    no_libraries "$room"
    if inside "$room" / sh -c 'command -v pkg-config'; then fail "pkg-config is here: this proves nothing"; fi
    program static -tags=dlock_static
    inside "$room" /srv smoke/smoke.sh static/smoke
    if inside "$room" /srv ldd static/smoke | grep -v -E 'linux-vdso|libc\.so|ld-linux|libpthread|libdl|libresolv'; then fail "the program needs more than the C library"; fi
    inside "$room" /srv/static GOPROXY=off GOFLAGS=-tags=dlock_static sh -ec 'go mod vendor; go build -mod=vendor -o vendored .; ls vendor/*/*/*/bindings/go/internal/libdlock/src' >"$room.vendor.log"
    inside "$room" /srv smoke/smoke.sh static/vendored
    echo "-- $1: the library inside the program works, also from a vendor folder"
}

# The installed library, found by pkg-config.
try_system() {
    install_library "$room"
    program system
    inside "$room" /srv smoke/smoke.sh system/smoke
    inside "$room" /srv ldd system/smoke | grep -q libdlock.so.1 || fail "the program does not use the installed library"
    echo "-- $1: the installed library works"
}

[ -n "$suites" ] || exit 0
[ "$(id -u)" = 0 ] || fail "root folders need root"
mkdir -p "$rooms"
exec 9>"$rooms/.go.lock"
flock 9
for suite in $suites; do
    room=$rooms/go-$suite
    clean_root "$suite" "$room"
    install_in "$room" redis-server golang-go gcc libc6-dev
    cp -R "$out" "$room/srv/proxy"
    cp -R "$root/packaging/smoke" "$room/srv/smoke"
    try_static "$suite"
    try_system "$suite"
    rm -rf --one-file-system "$room"
done
