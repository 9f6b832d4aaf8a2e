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
cache=${XDG_CACHE_HOME:-$HOME/.cache}/libdlock
dir=$cache/$suite
tree=$dir/srv/libdlock

fail() {
    echo "$suite: $*" >&2
    exit 1
}

# archive ORIGIN LABEL: the URL of this machine's apt archive with that origin and label; empty when there is none.
# shellcheck disable=SC2016 # for apt
archive() {
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$1|$2|//p" | head -n 1
}

# Make the release. Without an archive of this machine debootstrap uses its default one.
bootstrap() {
    echo "== $suite: made in $dir"
    rm -rf --one-file-system "$dir"
    if [ "$suite" = noble ]; then bootstrap_ubuntu; else bootstrap_debian; fi
    printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d" # no services
    chmod 755 "$dir/usr/sbin/policy-rc.d"
    touch "$dir/.complete"
}

make_base() { # arguments of debootstrap
    debootstrap --variant=minbase --include=ca-certificates "$@" >"$dir.log" 2>&1 ||
        { tail -n 20 "$dir.log"; fail "debootstrap failed; all it said: $dir.log"; }
}

# A release that this debootstrap does not know is made with the rules of sid.
bootstrap_debian() {
    local mirror security rules=""
    mirror=$(archive Debian Debian)
    security=$(archive Debian Debian-Security)
    if [ ! -e "/usr/share/debootstrap/scripts/$suite" ]; then rules=/usr/share/debootstrap/scripts/sid; fi
    make_base "$suite" "$dir" ${mirror:+"$mirror" ${rules:+"$rules"}}
    [ -n "$mirror" ] || return 0
    printf 'deb %s %s main\n' "$mirror" "$suite" "$mirror" "$suite-updates" >"$dir/etc/apt/sources.list"
    if [ -n "$security" ]; then echo "deb $security $suite-security main" >>"$dir/etc/apt/sources.list"; fi
}

# Debian 12 has debootstrap rules for Ubuntu, with the URL, but not under the name of this release, and without the keys.
bootstrap_ubuntu() {
    local rules=/usr/share/debootstrap/scripts/gutsy mirror keys part
    mirror=$(archive Ubuntu Ubuntu)
    mirror=${mirror:-$(sed -n 's/^[[:space:]]*default_mirror \(.*archive.*\)/\1/p' "$rules" | head -n 1)}
    keys=$(ubuntu_keys "$mirror") || fail "no keys to check Ubuntu's packages with" # debootstrap would only warn
    make_base --keyring="$keys" "$suite" "$dir" "$mirror" "$rules"
    for part in "" -updates -security; do echo "deb $mirror $suite$part main universe"; done >"$dir/etc/apt/sources.list"
}

ubuntu_keys() {
    local keys=usr/share/keyrings/ubuntu-archive-keyring.gpg package=ubuntu-keyring_2023.11.28.1_all.deb
    local sum=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8
    if [ -e "/$keys" ]; then
        echo "/$keys"
        return
    fi
    /usr/lib/apt/apt-helper download-file "$1/pool/main/u/ubuntu-keyring/$package" "$cache/$package" "SHA256:$sum" >&2 &&
        dpkg-deb -x "$cache/$package" "$cache/ubuntu-keyring" &&
        echo "$cache/ubuntu-keyring/$keys"
}

# Copy the network settings of this machine.
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

# Replace the copy of the tree. Build results are not copied, and those in the chroot are kept.
copy_tree() {
    mkdir -p "$tree"
    find "$tree" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf -- {} +
    tar -C "$root" --exclude=./build --exclude=./.git --exclude=__pycache__ --exclude=.mypy_cache --exclude=.pytest_cache -cf - . |
        tar -C "$tree" --no-same-owner -xf -
}

# inside WORDS...: run a command in the release, with namespaces for mounts and processes, and this machine's network.
inside() {
    # shellcheck disable=SC2016 # for the other shell
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc="$dir/proc" -- \
        sh -ec 'mount -t tmpfs dev-shm "$1/dev/shm"; mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"; shift; "$@"' - \
        "$dir" chroot "$dir" env -i --chdir=/srv/libdlock PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$HOME" LANG=C.UTF-8 \
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
