#!/usr/bin/env bash
# node.sh [PLATFORM...]: the npm package, with the addon and the library inside, into build/packages/node. PLATFORM: x86_64, aarch64
# (default: both).
#
# The addon uses N-API and is compiled as packaging/bundle/build.sh compiles the library, which stands beside it: one file of a platform
# for Node.js 18 and newer, and glibc 2.17 and newer.
#
# Clean roots without a compiler and without npm try it with packaging/smoke, as an ES module and as a CommonJS module: this machine's
# platform in each release of SUITES, and the other one under qemu. SUITES="" leaves that out; else it needs root.
# needs: binutils-aarch64-linux-gnu python3-venv NODE
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
bundle=$root/build/bundle
rooms=$root/build/rooms
suites=${SUITES-bookworm trixie}
HOME_INSIDE=~root
source=$root/build/packages/source/node
out=$root/build/packages/node

export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

if [ "$#" = 0 ]; then set -- x86_64 aarch64; fi
"$root/packaging/bundle/build.sh" "$@"
rm -rf "$source" "$out"
mkdir -p "$source" "$out"
tar -C "$root/bindings/node" --exclude=node_modules --exclude=prebuilds -cf - . | tar -C "$source" -xf -
cp "$root/LICENSE" "$source"

# addon PLATFORM NAME: the addon and the library in the folder where lib/addon.js looks for them. NAME: Node.js's name of the platform.
addon() {
    local folder=$source/prebuilds/linux-$2
    mkdir -p "$folder"
    cp "$bundle/$1/libdlock.so.1" "$folder"
    printf 'Name: dlock\nDescription: locks\nVersion: 0\nLibs: %s -Wl,-s\nCflags: -I%s\n' "$folder/libdlock.so.1" "$bundle/libdlock" >"$source/dlock.pc"
    CC="$bundle/tools/bin/python -m ziglang cc -target $1-linux-gnu.2.17" PKG_CONFIG_PATH=$source \
        ZIG_GLOBAL_CACHE_DIR=$bundle/zig ZIG_LOCAL_CACHE_DIR=$bundle/zig NODE_INCLUDE=/usr/include/node node "$source/build.js" "$folder/dlock.node"
}

for platform in "$@"; do
    case $platform in
        x86_64) addon "$platform" x64 ;;
        aarch64) addon "$platform" arm64 ;;
        *) fail "no platform $platform" ;;
    esac
done
"$root/packaging/hardened.py" "$source/prebuilds"
(cd "$source" && npm pack --silent --pack-destination "$out" >"$out/pack.log") || { cat "$out/pack.log"; exit 1; }
rm "$out/pack.log"
(cd "$out" && stat -c '%n: %s bytes' -- *.tgz && sha256sum -- *.tgz >SHA256SUMS)

# room NAME SUITE PACKAGE...: a clean root with the package in node_modules, as npm would unpack it.
room() {
    room=$rooms/node-$1
    clean_root "$2" "$room"
    install_in "$room" redis-server "${@:3}"
    mkdir -p "$room/srv/node_modules/dlock"
    tar -C "$room/srv/node_modules/dlock" --strip-components=1 -xf "$out"/*.tgz
    cp -R "$root/packaging/smoke" "$room/srv/smoke"
}

smoke() { # LABEL FOLDER: with the node in that folder
    no_compiler "$room"
    inside "$room" /srv PATH="$2:/usr/sbin:/usr/bin:/sbin:/bin" sh -ec 'echo "-- Node.js $(node -p "[process.version, process.arch].join()")"; smoke/smoke.sh node'
    echo "-- $1: import and require work"
    rm -rf --one-file-system "$room"
}

[ -n "$suites" ] || exit 0
[ "$(id -u)" = 0 ] || fail "root folders need root"
mkdir -p "$rooms"
exec 9>"$rooms/.node.lock"
flock 9
for platform in "$@"; do
    if [ "$platform" = "$(uname -m)" ]; then
        for suite in $suites; do
            room "$suite" "$suite" nodejs
            smoke "$suite, $platform" /usr/bin
        done
    elif [ "$platform" = aarch64 ]; then
        room "${suites%% *}-arm64" "${suites%% *}"
        foreign "$room" "$platform" arm64 nodejs node
        smoke "${suites%% *}, $platform under qemu" /srv/bin
    fi
done
