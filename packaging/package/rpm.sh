#!/usr/bin/env bash
# rpm.sh: RPM packages, into build/packages/rpm, by packaging/rpm/libdlock.spec.
#
# No distribution with rpm is needed, and none is imitated: the packages are built in a clean root of Debian, link its libraries, and
# serve to try the specification. rpmlint must say nothing. rpm --root installs them in another clean root, without a compiler, with a
# database of its own; what they need of the distribution comes from Debian's packages, so dependencies are not checked there.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
suite=${1:-bookworm}
version=$(/usr/bin/python3 "$root/packaging/version.py")
rooms=$root/build/rooms
out=$root/build/packages/rpm
HOME_INSIDE=~root

[ "$(id -u)" = 0 ] || fail "root folders need root"
mkdir -p "$rooms"
exec 9>"$rooms/.rpm.lock"
flock 9

maker=$rooms/rpm-build
clean_root "$suite" "$maker"
install_in "$maker" gcc libc6-dev meson ninja-build pkgconf libhiredis-dev libssl-dev libnghttp2-dev libprotobuf-c-dev protobuf-c-compiler \
    python3 rpm rpmlint xz-utils
mkdir -p "$maker/srv/rpm/SOURCES"
git -C "$root" archive --prefix="libdlock-$version/" HEAD | xz -T1 >"$maker/srv/rpm/SOURCES/libdlock-$version.tar.xz"
cp "$root/packaging/rpm/libdlock.spec" "$root/packaging/rpm/rpmlint.toml" "$maker/srv/rpm"
# The database of rpm is empty here, so it cannot see what is installed: --nodeps.
inside "$maker" /srv/rpm SOURCE_DATE_EPOCH="$(git -C "$root" log -1 --format=%ct)" rpmbuild -ba --nodeps --define '_topdir /srv/rpm' --define '_lto_cflags %{nil}' \
    --define "python3_sitelib /usr/lib/python3/dist-packages" --define 'optflags -O2 -g' --define '_libdir /usr/lib64' --define 'build_ldflags -s' --define '_build_id_links none' \
    libdlock.spec >"$maker.build.log" 2>&1 || { tail -n 30 "$maker.build.log"; fail "the build failed, see $maker.build.log"; }
rm -rf "$out"
mkdir -p "$out"
find "$maker/srv/rpm" -name '*.rpm' -exec cp {} "$out" \;
inside "$maker" /srv/rpm rpmlint -c rpmlint.toml libdlock.spec RPMS SRPMS >"$maker.rpmlint.log" 2>&1 || { cat "$maker.rpmlint.log"; fail "rpmlint has something to say"; }
tail -n 1 "$maker.rpmlint.log"

room=$rooms/rpm-try
clean_root "$suite" "$room"
install_in "$room" redis-server python3 luajit rpm libhiredis0.14 libssl3 libnghttp2-14 libprotobuf-c1
no_compiler "$room"
mkdir -p "$room/srv/packages"
cp "$out"/*.rpm "$room/srv/packages"
rm -f "$room"/srv/packages/*.src.rpm "$room"/srv/packages/libdlock-devel* "$room"/srv/packages/*debug*
cp -R "$root/packaging/smoke" "$room/srv/smoke"
names="libdlock dlock python3-dlock lua-dlock"
inside "$room" /srv sh -ec 'rpm --root / --initdb; rpm --root / --install --nodeps packages/*.rpm; echo /usr/lib64 >/etc/ld.so.conf.d/lib64.conf; ldconfig; rpm --root / -q '"$names"
inside "$room" /srv PYTHONDONTWRITEBYTECODE=1 smoke/smoke.sh command python lua
inside "$room" /srv sh -ec "rpm --root / --verify --nodeps $names; rpm --root / --erase --nodeps $names; ldconfig"
left=$(find "$room/usr" "$room/etc" -name 'dlock*' -o -name 'libdlock*' -o -name '_dlock')
[ -z "$left" ] || fail "an erasure leaves: $left"
echo "-- an erasure leaves nothing"
"$root/packaging/hardened.py" "$maker"/srv/rpm/BUILDROOT/*/usr
(cd "$out" && sha256sum -- *.rpm | tee SHA256SUMS)
rm -rf --one-file-system "$maker" "$room"
