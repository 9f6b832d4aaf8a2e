#!/usr/bin/env bash
# install.sh [SUITE...]: run the lines of the README's section Try and install as they are written, each on its own, in a clean root with the
# committed tree, and try what they have installed. ./dev test --install calls it. SUITE: bookworm, trixie, noble; default: all three.
# The root has sudo besides, and apt asks no questions in it.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
rooms=$root/build/rooms
HOME_INSIDE=~root

[ "$(id -u)" = 0 ] || fail "root folders need root"
if [ "$#" = 0 ]; then set -- bookworm trixie noble; fi
mapfile -t lines < <(git -C "$root" show HEAD:README.md | sed -n '/^## Try and install$/,/^## The/p' | sed -n '/^```sh$/,/^```$/p' | grep -v '^```')
[ "${#lines[@]}" -ge 5 ] || fail "the README's section Try and install has ${#lines[@]} lines of shell"
mkdir -p "$rooms"
exec 9>"$rooms/.lock"
flock 9
for suite in "$@"; do
    echo "== $suite"
    room=$rooms/$suite-install
    clean_root "$suite" "$room"
    install_in "$room" sudo
    echo 'APT::Get::Assume-Yes "true";' >"$room/etc/apt/apt.conf.d/90yes"
    mkdir -p "$room/srv/libdlock"
    git -C "$root" archive HEAD | tar -C "$room/srv/libdlock" -xf -
    for line in "${lines[@]}"; do
        echo "-- $line"
        inside "$room" /srv/libdlock bash -c "$line" >"$room.log" 2>&1 || { tail -n 20 "$room.log"; fail "$suite: this line fails: $line"; }
    done
    install_in "$room" redis-server
    inside "$room" /srv/libdlock PATH=/srv/libdlock/env/bin:/usr/sbin:/usr/bin:/sbin:/bin packaging/smoke/smoke.sh command python lua
    rm -rf --one-file-system "$room"
done
