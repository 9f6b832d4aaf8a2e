#!/usr/bin/env bash
# chroot.sh SUITE SERVERS COMMAND...: run a command of ./dev in another release of Debian, or in Ubuntu 24.04 (noble), once with
# each of the servers. ./dev test --distro calls it as root; it needs debootstrap.
#
# The release is kept in a cache folder, with the packages that ./dev has installed there; remove the folder to start again. Each
# run copies this tree into it, and the settings of this machine that give access to packages: the mirror, apt's transport
# options, certificates, and the settings of Maven, Go and pip. Mounts and processes are in namespaces of their own, so they end
# with the run in any case.
set -euo pipefail

suite=$1 servers=$2
shift 2
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
dir=$cache/$suite
tree=$dir/srv/libdlock

# Replace the copy of the tree. Build results are not copied, and those in the chroot are kept.
copy_tree() {
    mkdir -p "$tree"
    find "$tree" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf -- {} +
    tar -C "$root" --exclude=./build --exclude=./.git --exclude=__pycache__ --exclude=.mypy_cache --exclude=.pytest_cache -cf - . |
        tar -C "$tree" --no-same-owner -xf -
}

exec 9>"$dir.lock"
flock -n 9 || { echo "== $suite: another run has it, waiting"; flock 9; }
if [ ! -e "$dir/.complete" ]; then
    bootstrap "$suite" "$dir"
    touch "$dir/.complete"
fi
configure_network "$dir"
copy_tree
mkdir -p "$dir$HOME"

worst=0
for server in $servers; do
    echo "==== $suite, $server"
    code=0
    inside "$dir" /srv/libdlock DLOCK_SERVER="$server" /srv/libdlock/dev "$@" || code=$?
    echo "==== $suite, $server: ended with $code"
    if [ "$code" -gt "$worst" ]; then worst=$code; fi
done
exit "$worst"
