#!/usr/bin/env bash
# lua.sh: rocks for LuaJIT, into build/packages/lua: dlock finds the installed library, dlock-bundled carries it.
#
# dlock-bundled is there as sources, which need a C compiler and make, and compiled for this machine's platform and glibc 2.17 or newer.
#
# Clean roots of the releases in SUITES try all three with packaging/smoke: the compiled rock where no compiler is. SUITES="" leaves that
# out; else it needs root.
# needs: luajit luarocks zip python3-venv
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
rooms=$root/build/rooms
suites=${SUITES-bookworm trixie}
HOME_INSIDE=~root
source=$root/build/packages/source/lua
out=$root/build/packages/lua
version=$("$root/packaging/version.py")
name=dlock-bundled-$version

export PATH=/usr/sbin:/usr/bin:/sbin:/bin SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
rock() { (cd "$1" && luarocks --lua-version=5.1 make --tree "$source/tree" --pack-binary-rock "$2") >"$source/luarocks.log" 2>&1 || { cat "$source/luarocks.log"; exit 1; }; }

"$root/packaging/bundle/build.sh" "$(uname -m)"
rm -rf "$source" "$out"
mkdir -p "$source/$name" "$source/dlock" "$out"
for folder in "$name" dlock; do
    cp -R "$root/bindings/lua/." "$source/$folder"
    cp "$root/LICENSE" "$source/$folder"
done
rock "$source/dlock" "dlock-$version-1.rockspec"
mv "$source"/dlock/*.rock "$out"

# The rock with the library has the same modules, and the library beside them, where dlock.lua looks for it.
cd "$source"
rm "$name"/*.rockspec
cp -R "$root/build/bundle/libdlock" "$name"
printf 'library:\n\t$(MAKE) -C libdlock -j "$$(nproc)" shared OUT=../out\n\tcp out/libdlock.so.1 out/libdlock.so\n' >"$name/Makefile"
cat >"$name-1.rockspec" <<END
package = "dlock-bundled"
version = "$version-1"
source = { url = "file://$name.tar.gz", dir = "$name" }
description = {
  summary = "Distributed locks on Redis, etcd and ZooKeeper, by libdlock, which is inside",
  detailed = "Needs LuaJIT 2.1 or OpenResty.",
  license = "MIT",
}
dependencies = { "lua == 5.1" }
build = {
  type = "make",
  install_pass = false,
  build_variables = { CC = "\$(CC)" },
  install = {
    lua = { ["dlock"] = "dlock.lua", ["dlock.cdef"] = "dlock/cdef.lua", ["dlock.luv"] = "dlock/luv.lua", ["dlock.ngx"] = "dlock/ngx.lua" },
    lib = { ["dlock.libdlock"] = "out/libdlock.so" },
  },
}
END
tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" | gzip -9n >"$name.tar.gz"
touch -d "@$SOURCE_DATE_EPOCH" "$name-1.rockspec" "$name.tar.gz"
zip -qX9 "$out/$name-1.src.rock" "$name-1.rockspec" "$name.tar.gz"
cp "$name-1.rockspec" "$name"
printf 'library:\n\tinstall -D %s out/libdlock.so\n' "$root/build/bundle/$(uname -m)/libdlock.so.1" >"$name/Makefile" # compiled above
rock "$source/$name" "$name-1.rockspec"
mv "$name"/*.rock "$out"
(cd "$out" && stat -c '%n: %s bytes' -- *.rock && sha256sum -- *.rock >SHA256SUMS)

# room SUITE PACKAGE...: a clean root with LuaJIT, LuaRocks and the rocks.
room() {
    room=$rooms/lua-$1
    clean_root "$1" "$room"
    install_in "$room" redis-server luajit luarocks "${@:2}"
    cp -R "$out" "$room/srv/rocks"
    cp -R "$root/packaging/smoke" "$room/srv/smoke"
}

smoke() { # LABEL ROCK
    inside "$room" /srv sh -ec 'luarocks --lua-version=5.1 install "rocks/$1" >install.log 2>&1 || { cat install.log; exit 1; }' - "$2"
    inside "$room" /srv smoke/smoke.sh lua
    echo "-- $1 works"
}

[ -n "$suites" ] || exit 0
[ "$(id -u)" = 0 ] || fail "root folders need root"
mkdir -p "$rooms"
exec 9>"$rooms/.lua.lock"
flock 9
for suite in $suites; do
    room "$suite"
    no_compiler "$room"
    smoke "$suite: the rock with a compiled library" "$name-1.linux-$(uname -m).rock"
    inside "$room" /srv luarocks --lua-version=5.1 remove dlock-bundled >"$room.log"
    install_in "$room" gcc libc6-dev make
    smoke "$suite: the rock with the library's sources" "$name-1.src.rock"
    inside "$room" /srv luarocks --lua-version=5.1 remove dlock-bundled >"$room.log"
    if inside "$room" /srv smoke/smoke.sh lua >"$room.log" 2>&1; then fail "the library of a removed rock is still found"; fi
    install_library "$room"
    smoke "$suite: the rock for an installed library" "dlock-$version-1.all.rock"
    rm -rf --one-file-system "$room"
done
