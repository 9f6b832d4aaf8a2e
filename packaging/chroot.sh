#!/usr/bin/env bash
# chroot.sh SUITE SERVERS COMMAND...: run a command of ./dev in a Debian of another release, once with each of the servers.
# ./dev test --distro calls it, as root, with debootstrap installed.
#
# The release is kept in a cache folder, with the packages that ./dev has installed there; remove the folder to begin anew. It
# gets a copy of this tree at every run, and what it needs to reach packages from this machine: the mirror, apt's transport
# options, the certificates, the settings of Maven, Go and pip. Mounts and processes are in namespaces of their own: they end
# with the run, however it ends.
set -euo pipefail

suite=$1 servers=$2
shift 2
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/libdlock
dir=$cache/$suite
tree=$dir/srv/libdlock

fail() {
    echo "$suite: $*" >&2
    exit 1
}

# The address of this machine's Debian archive with that label; nothing when it has none (Ubuntu).
# shellcheck disable=SC2016 # for apt
archive() {
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' | sed -n "s/^Debian|$1|//p" | head -n 1
}

# debootstrap knows an address itself, which is what a machine without one of its own uses.
bootstrap() {
    local mirror
    mirror=$(archive Debian)
    echo "== $suite: made in $dir"
    rm -rf --one-file-system "$dir"
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$dir" ${mirror:+"$mirror"} >"$dir.log" 2>&1 ||
        { tail -n 20 "$dir.log"; fail "debootstrap failed; all it said: $dir.log"; }
    configure_apt "$mirror" "$(archive Debian-Security)"
    touch "$dir/.complete"
}

configure_apt() {
    if [ -n "$1" ]; then
        printf 'deb %s %s main\n' "$1" "$suite" "$1" "$suite-updates" >"$dir/etc/apt/sources.list"
        if [ -n "$2" ]; then echo "deb $2 $suite-security main" >>"$dir/etc/apt/sources.list"; fi
    fi
    printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d" # no services
    chmod 755 "$dir/usr/sbin/policy-rc.d"
}

# What this machine knows about reaching others.
configure_network() {
    local file
    apt-config dump Acquire | grep -E '^Acquire::(Check-|http|https|Retries)' >"$dir/etc/apt/apt.conf.d/90host" || true
    for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/apt/auth.conf.d /etc/pip.conf \
        /etc/maven/settings.xml "$HOME/.m2/settings.xml" "$HOME/.config/go/env"; do
        if [ -e "$file" ]; then
            mkdir -p "$dir${file%/*}"
            cp -RL "$file" "$dir${file%/*}"
        fi
    done
}

# All but what is made, in place of the former copy; what was made there is kept.
copy_tree() {
    mkdir -p "$tree"
    find "$tree" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf -- {} +
    tar -C "$root" --exclude=./build --exclude=./.git --exclude=__pycache__ --exclude=.mypy_cache --exclude=.pytest_cache -cf - . |
        tar -C "$tree" --no-same-owner -xf -
}

# inside WORDS...: run them in the release, as if in a machine of their own that shares this one's network.
inside() {
    # shellcheck disable=SC2016 # for the other shell
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc="$dir/proc" -- \
        sh -ec 'mount -t tmpfs dev-shm "$1/dev/shm"; mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"; shift; "$@"' - \
        "$dir" chroot "$dir" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$HOME" LANG=C.UTF-8 \
        "${environment[@]}" "$@" </dev/null
}

mkdir -p "$cache"
exec 9>"$dir.lock"
flock -n 9 || { echo "== $suite: another run has it, waiting"; flock 9; }
if [ ! -e "$dir/.complete" ]; then bootstrap; fi
configure_network
copy_tree
mkdir -p "$dir$HOME"

environment=()
for name in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE http_proxy https_proxy no_proxy GOPROXY GOSUMDB CI; do
    if [ -n "${!name:-}" ]; then environment+=("$name=${!name}"); fi
done

worst=0
for server in $servers; do
    echo "==== $suite, $server"
    code=0
    inside DLOCK_SERVER="$server" /srv/libdlock/dev "$@" || code=$?
    echo "==== $suite, $server: ended with $code"
    if [ "$code" -gt "$worst" ]; then worst=$code; fi
done
exit "$worst"
