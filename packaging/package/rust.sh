#!/usr/bin/env bash
# rust.sh: the crates dlock-sys, with the library's sources inside, and dlock, into build/packages/rust.
#
# With the feature "bundled" the build script compiles the bundle of packaging/bundle by the crate cc. Without it the crate finds the
# installed library by pkg-config.
#
# Clean roots of the releases in SUITES try both with packaging/smoke: the first one where no library is. The other crates come from the
# release's packages. SUITES="" leaves that out; else it needs root.
# needs: cargo librust-cc-dev librust-pkg-config-dev librust-tokio-dev
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=packaging/roots.sh
source "$root/packaging/roots.sh"
bundle=$root/build/bundle/libdlock
rooms=$root/build/rooms
suites=${SUITES-bookworm trixie}
HOME_INSIDE=~root
source=$root/build/packages/source/rust
out=$root/build/packages/rust

export PATH=/usr/sbin:/usr/bin:/sbin:/bin SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}

# crates_from FOLDER: settings of cargo that have it take all crates from there.
crates_from() { printf '[source.crates-io]\nreplace-with = "packaged"\n[source.packaged]\ndirectory = "%s"\n[net]\noffline = true\n' "$1"; }

"$root/packaging/bundle/make.py" "$bundle" "$root/build/bundle"
rm -rf "$source" "$out"
mkdir -p "$source" "$out" "$source/home"
tar -C "$root/bindings/rust" --exclude=target --exclude=Cargo.lock -cf - . | tar -C "$source" -xf -
cp -R "$bundle" "$source/dlock-sys/bundle"
crates_from /usr/share/cargo/registry >"$source/home/config.toml"
for crate in dlock-sys dlock; do
    cp "$root/LICENSE" "$source/$crate"
    (cd "$source/$crate" && CARGO_HOME=$source/home cargo package --quiet --no-verify --allow-dirty --target-dir "$source/target")
done
cp "$source"/target/package/*.crate "$out"
(cd "$out" && stat -c '%n: %s bytes' -- *.crate && sha256sum -- *.crate >SHA256SUMS)

# A folder with all crates that cargo may want: those of the release, and ours as they would come from a registry.
# shellcheck disable=SC2016 # for the shell inside
crates() {
    cp -R "$out" "$room/srv/packages"
    cp -R "$root/packaging/smoke" "$room/srv/smoke"
    inside "$room" /srv sh -ec 'mkdir crates; ln -s /usr/share/cargo/registry/* crates
        for file in packages/*.crate; do
            tar -C crates -xf "$file"
            name=${file##*/}
            printf "{\"files\":{},\"package\":\"%s\"}" "$(sha256sum "$file" | cut -d " " -f 1)" >"crates/${name%.crate}/.cargo-checksum.json"
        done'
    mkdir "$room/srv/.cargo"
    crates_from /srv/crates >"$room/srv/.cargo/config.toml"
}

# program NAME FEATURES: a program of its own that uses the crate dlock.
# shellcheck disable=SC2016 # for the shell inside
program() {
    inside "$room" /srv sh -ec 'mkdir -p "$1/src"; cd "$1"; cp ../smoke/smoke.rs src/main.rs
        printf "[package]\nname = \"smoke\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ndlock = { version = \"*\", features = [%s] }\n" "$2" >Cargo.toml
        start=$(date +%s); cargo build --quiet --release; echo "-- $1: built in $(($(date +%s) - start)) s"' - "$1" "$2"
    inside "$room" /srv smoke/smoke.sh "$1/target/release/smoke"
}

try_bundled() {
    no_libraries "$room"
    program bundled '"bundled"'
    if inside "$room" /srv ldd bundled/target/release/smoke | grep -v -E 'linux-vdso|libc\.so|ld-linux|libgcc_s|libm\.so|libpthread|libdl'; then fail "the program needs more than the C library"; fi
    echo "-- $1: the feature bundled works, with $(inside "$room" / rustc --version)"
}

try_system() {
    install_library "$room"
    program system ""
    inside "$room" /srv ldd system/target/release/smoke | grep -q libdlock.so.1 || fail "the program does not use the installed library"
    echo "-- $1: the installed library works"
}

[ -n "$suites" ] || exit 0
[ "$(id -u)" = 0 ] || fail "root folders need root"
mkdir -p "$rooms"
exec 9>"$rooms/.rust.lock"
flock 9
for suite in $suites; do
    room=$rooms/rust-$suite
    clean_root "$suite" "$room"
    install_in "$room" redis-server cargo librust-cc-dev librust-pkg-config-dev librust-tokio-dev
    crates
    try_bundled "$suite"
    try_system "$suite"
    rm -rf --one-file-system "$room"
done
