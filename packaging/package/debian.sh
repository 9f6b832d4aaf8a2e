#!/usr/bin/env bash
# debian.sh [SUITE...]: Debian's packages, into build/packages/SUITE. SUITE: bookworm, trixie, noble (Ubuntu 24.04); default: all three.
#
# For each release: the committed tree is built twice in a clean root, in another folder, time zone, language and umask the second time,
# and the packages must be the same bytes. lintian of that release must say nothing. Another clean root gets the packages that a
# user installs, and no compiler; packaging/smoke tries them there, and a purge must leave nothing. autopkgtest runs debian/tests in a
# third one. Needs root.
# needs: autopkgtest
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
version=$(/usr/bin/python3 "$root/packaging/version.py")
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
rooms=$root/build/rooms
HOME_INSIDE=~root

# sources DIR: the source package's two parts: the tree of the last commit, and debian.
sources() {
    rm -rf "$1"
    mkdir -p "$1"
    git -C "$root" archive --prefix="libdlock-$version/" HEAD | xz -T1 >"$1/libdlock_$version.orig.tar.xz"
    tar -C "$1" -xf "$1/libdlock_$version.orig.tar.xz"
    cp -R "$1/libdlock-$version/packaging/debian" "$1/libdlock-$version/debian"
}

# build ROOT FOLDER VARIABLES...: build the packages in ROOT's FOLDER, which must be new.
build() {
    local room=$1 folder=$2
    shift 2
    mkdir -p "$room$folder"
    cp -R "$rooms/source/." "$room$folder"
    # Ubuntu has no unstable: its packages name the release.
    if [ "$suite" = noble ]; then sed -i "1s/) unstable;/) $suite;/" "$room$folder/libdlock-$version/debian/changelog"; fi
    inside "$room" "$folder/libdlock-$version" SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" DEB_BUILD_OPTIONS="parallel=$(nproc)" "$@" \
        dpkg-buildpackage -us -uc >"$room.build.log" 2>&1 || { tail -n 30 "$room.build.log"; fail "the build failed, see $room.build.log"; }
}

built() {
    local room=$1 out=$2 names
    clean_root "$suite" "$room"
    install_in "$room" build-essential lintian
    mkdir -p "$room/srv/control"
    cp -R "$root/packaging/debian" "$room/srv/control/debian"
    inside "$room" /srv/control apt-get -qq -y build-dep --no-install-recommends ./ >"$room.apt.log" 2>&1 ||
        { tail -n 30 "$room.apt.log"; fail "build dependencies: see $room.apt.log"; }
    build "$room" /srv/first TZ=UTC
    build "$room" /srv/other/folder TZ=Pacific/Chatham LC_ALL=C sh -c 'umask 027; exec "$@"' -
    rm -rf "$out"
    mkdir -p "$out"
    cp "$room"/srv/first/*.{deb,dsc,tar.xz,changes,buildinfo} "$out"
    (cd "$out" && sha256sum -- *.deb *.dsc *.tar.xz >SHA256SUMS)
    (cd "$room/srv/other/folder" && sha256sum --quiet -c "$out/SHA256SUMS") || fail "two builds are not the same bytes"
    echo "-- built twice, the same bytes"
    sed 's/^/   /' "$out/SHA256SUMS"
    names=$(cd "$out" && echo *.changes)
    inside "$room" /srv/first lintian --allow-root --fail-on error,warning,info,pedantic "$names" >"$room.lintian.log" 2>&1 || true
    if [ -s "$room.lintian.log" ]; then cat "$room.lintian.log"; fail "lintian has something to say"; fi
    echo "-- lintian says nothing"
    for package in "$out"/{libdlock1,dlock}_*.deb; do
        dpkg-deb -x "$package" "$room/srv/unpacked"
    done
    "$root/packaging/hardened.py" "$room/srv/unpacked"
    # shellcheck disable=SC2016 # for the shell inside
    inside "$room" /srv/first sh -ec 'apt-get -qq -y install ./libdlock1_*.deb ./libdlock-dev_*.deb >/dev/null
        cc -Wall -Werror libdlock-*/packaging/smoke/smoke.c -o smoke $(pkg-config --cflags --libs dlock)'
}

tried() {
    local room=$1 out=$2 maker=$3 before after
    clean_root "$suite" "$room"
    install_in "$room" redis-server man-db
    before=$(find "$room/usr" "$room/etc" -name '*dlock*' | sort)
    mkdir -p "$room/srv/packages"
    cp "$out"/{libdlock1,dlock,python3-dlock,lua-dlock}_*.deb "$room/srv/packages"
    cp -R "$root/packaging/smoke" "$room/srv/smoke"
    cp "$maker/srv/first/smoke" "$room/srv/smoke/smoke"
    # shellcheck disable=SC2046 # names without spaces
    install_in "$room" $(cd "$room" && printf '/%s ' srv/packages/*.deb)
    no_compiler "$room"
    inside "$room" /srv/smoke ./smoke.sh /srv/smoke/smoke command man python lua
    inside "$room" / apt-get -qq -y purge libdlock1 dlock python3-dlock lua-dlock >"$room.apt.log" 2>&1
    after=$(find "$room/usr" "$room/etc" -name '*dlock*' | sort)
    [ "$before" = "$after" ] || fail "a purge leaves: $after"
    echo "-- a purge leaves nothing"
}

tested() {
    local room=$1 out=$2 code=0
    clean_root "$suite" "$room"
    rm -rf "$out/autopkgtest"
    # autopkgtest mounts nothing there. Go from 1.24 on needs /proc.
    # shellcheck disable=SC2016 # words of the inner shell
    unshare --mount sh -ec 'mount -t proc proc "$1/proc"; mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"; shift; exec "$@"' - "$room" \
        autopkgtest --apt-upgrade --output-dir="$out/autopkgtest" "$out"/*.deb "$out"/*.dsc -- chroot "$room" >"$room.autopkgtest.log" 2>&1 || code=$?
    [ "$code" = 0 ] || { tail -n 40 "$room.autopkgtest.log"; fail "autopkgtest ended with $code, see $room.autopkgtest.log"; }
    sed 's/^/-- autopkgtest: /' "$out/autopkgtest/summary"
}

[ "$(id -u)" = 0 ] || fail "root folders need root"
if [ "$#" = 0 ]; then set -- bookworm trixie noble; fi
mkdir -p "$rooms"
exec 9>"$rooms/.lock"
flock 9
sources "$rooms/source"
for suite in "$@"; do
    out=$root/build/packages/$suite
    start=$SECONDS
    echo "== $suite"
    built "$rooms/$suite-build" "$out"
    tried "$rooms/$suite-try" "$out" "$rooms/$suite-build"
    tested "$rooms/$suite-test" "$out"
    echo "== $suite: $(cd "$out" && stat -c '%n %s bytes' -- *.deb | paste -sd ,) in $((SECONDS - start)) s"
    for room in "$rooms/$suite"-{build,try,test}; do rm -rf --one-file-system "$room"; done
done
