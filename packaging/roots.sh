# roots.sh: sourced by chroot.sh and by the scripts in package/. Makes root folders with a release of Debian or Ubuntu, and runs commands
# in them. All need root and debootstrap.
# shellcheck shell=bash

cache=${XDG_CACHE_HOME:-$HOME/.cache}/libdlock
mkdir -p "$cache"

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# archive ORIGIN LABEL: the URL of this machine's apt archive with that origin and label; empty when there is none.
# shellcheck disable=SC2016 # for apt
archive() {
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$1|$2|//p" | head -n 1
}

# bootstrap SUITE DIR: make the release in DIR. Without an archive of this machine debootstrap uses its default one.
bootstrap() {
    echo "== $1: made in $2"
    rm -rf --one-file-system "$2"
    if [ "$1" = noble ]; then bootstrap_ubuntu "$@"; else bootstrap_debian "$@"; fi
    printf '#!/bin/sh\nexit 101\n' >"$2/usr/sbin/policy-rc.d" # no services
    chmod 755 "$2/usr/sbin/policy-rc.d"
}

make_base() { # DIR, arguments of debootstrap
    local log=$1.log
    shift
    debootstrap --variant=minbase --include=ca-certificates "$@" >"$log" 2>&1 ||
        { tail -n 20 "$log"; fail "debootstrap failed; all it said: $log"; }
}

# A release that this debootstrap does not know is made with the rules of sid.
bootstrap_debian() {
    local suite=$1 dir=$2 mirror security rules=""
    mirror=$(archive Debian Debian)
    security=$(archive Debian Debian-Security)
    if [ ! -e "/usr/share/debootstrap/scripts/$suite" ]; then rules=/usr/share/debootstrap/scripts/sid; fi
    make_base "$dir" "$suite" "$dir" ${mirror:+"$mirror" ${rules:+"$rules"}}
    [ -n "$mirror" ] || return 0
    printf 'deb %s %s main\n' "$mirror" "$suite" "$mirror" "$suite-updates" >"$dir/etc/apt/sources.list"
    if [ -n "$security" ]; then echo "deb $security $suite-security main" >>"$dir/etc/apt/sources.list"; fi
}

# Debian 12 has debootstrap rules for Ubuntu, with the URL, but not under the name of this release, and without the keys.
bootstrap_ubuntu() {
    local suite=$1 dir=$2 rules=/usr/share/debootstrap/scripts/gutsy mirror keys part
    mirror=$(archive Ubuntu Ubuntu)
    mirror=${mirror:-$(sed -n 's/^[[:space:]]*default_mirror \(.*archive.*\)/\1/p' "$rules" | head -n 1)}
    keys=$(ubuntu_keys "$mirror") || fail "no keys to check Ubuntu's packages with" # debootstrap would only warn
    make_base "$dir" --keyring="$keys" "$suite" "$dir" "$mirror" "$rules"
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

# configure_network DIR: copy the network settings of this machine that give access to packages.
configure_network() {
    local file
    apt-config dump Acquire | grep -E '^Acquire::(Check-|http|https|Retries)' >"$1/etc/apt/apt.conf.d/90host" || true
    for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/apt/auth.conf.d /etc/pip.conf \
        /etc/maven/settings.xml "$HOME/.m2/settings.xml" "$HOME/.config/go/env"; do
        if [ -e "$file" ]; then
            mkdir -p "$1${file%/*}"
            cp -RL "$file" "$1${file%/*}"
        fi
    done
}

# The variables of this shell that give access to packages, as words of env.
environment=()
for name in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE http_proxy https_proxy no_proxy GOPROXY GOSUMDB CI; do
    if [ -n "${!name:-}" ]; then environment+=("$name=${!name}"); fi
done

# inside DIR FOLDER WORDS...: run a command in the root DIR, in its FOLDER, with namespaces for mounts and processes, and this machine's
# network. Processes that it leaves end with it.
inside() {
    local dir=$1 folder=$2
    shift 2
    # shellcheck disable=SC2016 # for the other shell
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc="$dir/proc" -- \
        sh -ec 'mount -t tmpfs dev-shm "$1/dev/shm"; mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"; shift; "$@"' - \
        "$dir" chroot "$dir" env -i --chdir="$folder" PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="${HOME_INSIDE:-$HOME}" LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "${environment[@]}" "$@" </dev/null
}

# clean_root SUITE DIR: make DIR anew, with nothing but the release. The release is kept in the cache folder, as an archive.
clean_root() {
    local suite=$1 dir=$2 base=$cache/base-$1.tar.zst
    (
        flock 8
        [ ! -e "$base" ] || exit 0
        bootstrap "$suite" "$cache/base-$suite"
        rm -f "$cache/base-$suite"/var/cache/apt/archives/*.deb
        tar -C "$cache/base-$suite" --one-file-system -I 'zstd -q -3' -cf "$base.new" .
        rm -rf --one-file-system "$cache/base-$suite"
        mv "$base.new" "$base"
    ) 8>"$base.lock"
    rm -rf --one-file-system "$dir"
    mkdir -p "$dir"
    tar -C "$dir" -I zstd -xf "$base"
    configure_network "$dir"
    inside "$dir" / apt-get -qq update
}

# install_in DIR PACKAGE...: packages of the release, or files in DIR that begin with a slash.
install_in() {
    local dir=$1
    shift
    inside "$dir" / apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" >"$dir.apt.log" 2>&1 ||
        { tail -n 30 "$dir.apt.log"; fail "apt-get install $*: failed, see $dir.apt.log"; }
}

# install_library DIR: compile the bundle (packaging/bundle) in DIR and install it there, as a package of the library would.
# shellcheck disable=SC2016 # for the shell inside
install_library() {
    local version
    version=$("$root/packaging/version.py")
    install_in "$1" gcc libc6-dev make pkgconf
    cp -R "$root/build/bundle/libdlock" "$1/srv/libdlock"
    printf 'Name: dlock\nDescription: locks\nVersion: %s\nLibs: -L/usr/local/lib -ldlock\nCflags: -I/usr/local/include\n' "$version" >"$1/srv/dlock.pc"
    inside "$1" /srv/libdlock sh -ec 'make --silent -j "$(nproc)" shared; install -D -t /usr/local/lib out/libdlock.so.1; ln -s libdlock.so.1 /usr/local/lib/libdlock.so
        install -D -m 644 -t /usr/local/include dlock.h; install -D -m 644 -t /usr/local/lib/pkgconfig ../dlock.pc; ldconfig'
}

# foreign DIR PLATFORM ARCH PACKAGE PROGRAM [SETTING...]: unpack a package of another platform and all that it needs beside those of the
# root, and write a program of the same name in /srv/bin, which has qemu run it, with these variables.
# shellcheck disable=SC2016 # for the shell inside
foreign() {
    local dir=$1 platform=$2 arch=$3 package=$4 program=$5
    inside "$dir" / sh -ec 'dpkg --add-architecture "$1"; apt-get -qq update
        apt-get -qq -y --no-install-recommends --download-only install "$2:$1"
        mkdir -p /srv/other /srv/bin; for package in /var/cache/apt/archives/*_"$1".deb /var/cache/apt/archives/*_all.deb; do [ ! -e "$package" ] || dpkg-deb -x "$package" /srv/other; done
        [ -e /srv/other/lib ] || ln -s usr/lib /srv/other/lib' - "$arch" "$package" >"$dir.apt.log" 2>&1 ||
        { tail -n 20 "$dir.apt.log"; fail "$package for $arch: see $dir.apt.log"; }
    install_in "$dir" qemu-user-static
    printf '#!/bin/sh\n%s exec qemu-%s-static -L /srv/other /srv/other/usr/bin/%s "$@"\n' "${*:6}" "$platform" "$program" >"$dir/srv/bin/$program"
    chmod 755 "$dir/srv/bin/$program"
}

# no_libraries DIR: fails if the root has libdlock or what it is made of.
no_libraries() {
    local file
    for file in hiredis openssl nghttp2 protobuf-c dlock.h; do
        [ ! -e "$1/usr/include/$file" ] || fail "/usr/include/$file is here: this proves nothing"
    done
}

# no_compiler DIR: fails if the root could compile a program: then a trial there proves nothing.
no_compiler() {
    if inside "$1" / sh -c 'command -v cc || command -v gcc || command -v clang' || compgen -G "$1/usr/lib/*/libdlock.so" >&2; then
        fail "a compiler or a development file is here: this proves nothing"
    fi
}
