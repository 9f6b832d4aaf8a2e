#!/usr/bin/env bash
# release.sh [--dry] [--sign KEY] X.Y.Z: everything of a release but the upload, into build/release-X.Y.Z.
#
# The last commit is cloned there. In the clone the version is written, the changelog is dated, the ABI is compared with that of the
# last release (abi/released, written by abidw) and written anew, and all that is committed and tagged. Then the source archive, the
# packages, the SBOM and SHA256SUMS are made in build/release-X.Y.Z/artefacts. --dry: no packages, and uncommitted changes are no error.
# --sign KEY: gpg signs the tags and SHA256SUMS; sign.sh says what KEY is.
# needs: abigail-tools xz-utils git gpg gpg-agent
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

fail() {
    echo "release: $*" >&2
    exit 1
}

dry=no key=
while [ "$#" -gt 1 ]; do
    case $1 in
        --dry) dry=yes ;;
        --sign) key=$2; shift ;;
        *) break ;;
    esac
    shift
done
version=${1:-}
[[ $# = 1 && $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "./dev release [--dry] [--sign KEY] X.Y.Z"
[ -z "$key" ] || gpg --batch --list-secret-keys -- "$key" >/dev/null 2>&1 || fail "gpg has no secret key of the name that --sign gives"
out=$root/build/release-$version
tree=$out/tree
artefacts=$out/artefacts

[ "$dry" = yes ] || [ -z "$(git -C "$root" status --porcelain)" ] || fail "commit first"
[ -z "$(git -C "$root" tag --list "v$version")" ] || fail "v$version is there already"
rm -rf "$out"
mkdir -p "$artefacts"
git clone --quiet --no-local "$root" "$tree"
cd "$tree"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# ---- the version and the changelog

newest=$(printf '%s\n' "$(/usr/bin/python3 packaging/version.py)" "$version" | sort -V | tail -n 1)
[ "$newest" = "$version" ] || fail "this tree is $newest already"
/usr/bin/python3 packaging/version.py "$version" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" >/dev/null
/usr/bin/python3 abi/gen.py write >/dev/null
grep -q "^## $version\$" CHANGELOG.md || fail "CHANGELOG.md has no heading ## $version"
[ "$(grep -A 2 "^## $version\$" CHANGELOG.md | tail -n 1)" = "Not released yet." ] || fail "the changelog does not say of $version: Not released yet."
sed -i "/^## $version\$/,/^Not released yet\.\$/ s/^Not released yet\.\$/Released on $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)./" CHANGELOG.md

# ---- the ABI

meson setup build/abi . --buildtype=debug -Dtests=false -Ddemo=false -Dcommand=false -Dman=disabled >"$out/abi.log" || { cat "$out/abi.log"; exit 1; }
ninja --quiet -C build/abi libdlock.so.1
/usr/bin/python3 abi/gen.py check
/usr/bin/python3 abi/gen.py symbols build/abi/libdlock.so.1
mkdir -p abi/released
last=$(find abi/released -name '*.abi' | sort -V | tail -n 1)
if [ -n "$last" ]; then
    abidiff --no-added-syms --headers-dir1 abi --headers-dir2 abi "$last" build/abi/libdlock.so.1 || fail "the ABI does not only grow"
    echo "-- the ABI has additions only, compared with ${last##*/}"
    git rm --quiet -f "$last"
    mkdir -p abi/released
else
    echo "-- no release to compare the ABI with"
fi
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --headers-dir abi --drop-private-types --out-file "abi/released/libdlock-$version.abi" build/abi/libdlock.so.1
rm -rf build
git config user.name "${GIT_AUTHOR_NAME:-$(git -C "$root" log -1 --format=%an)}"
git config user.email "${GIT_AUTHOR_EMAIL:-$(git -C "$root" log -1 --format=%ae)}"
commit() { # MESSAGE PATH
    git add -A "$2"
    git commit --quiet -m "$1"
}
named() { # TAG: of this commit
    if [ -n "$key" ]; then packaging/sign.sh "$key" tag "$1" "libdlock $version"; else git tag --force "$1" >/dev/null; fi
}
commit "libdlock $version" .
named "v$version"
named "bindings/go/v$version"

# ---- the artefacts

git archive --prefix="libdlock-$version/" HEAD | xz -T1 >"$artefacts/libdlock-$version.tar.xz"
sum=$(sha256sum "$artefacts/libdlock-$version.tar.xz" | cut -d ' ' -f 1)
sed "/^source_filename/ a source_hash = $sum" packaging/recipes/wrap/dlock.wrap >"$artefacts/dlock.wrap"
sed "s/sha256 \"0*\"/sha256 \"$sum\"/" packaging/recipes/homebrew/libdlock.rb >"$artefacts/libdlock.rb"
versions=
if [ "$dry" = no ]; then
    for what in debian python alpine rust lua node; do
        ./dev package "$what"
        find build/packages -mindepth 2 -maxdepth 2 -type f ! -name SHA256SUMS |
            while IFS= read -r file; do
                where=$artefacts/$(basename "$(dirname "$file")")
                mkdir -p "$where"
                cp "$file" "$where"
            done
    done
    versions=build/bundle/libdlock/versions.txt
    # What go get takes is a tag. Its commit has the bundle, and no other commit has.
    git checkout --quiet --detach "v$version"
    packaging/bundle/golang.py build/bundle/libdlock bindings/go
    commit "libdlock $version for Go, with the sources that -tags dlock_static compiles" bindings/go
    named "bindings/go/v$version"
    git checkout --quiet -
fi
/usr/bin/python3 packaging/sbom.py ${versions:+"$versions"} >"$artefacts/libdlock-$version.cdx.json"
(cd "$artefacts" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum -- >SHA256SUMS)
if [ -n "$key" ]; then
    packaging/sign.sh "$key" sums "$artefacts"
    echo "-- signed by $(gpg --batch --with-colons --fingerprint -- "$key" | sed -n '/^fpr:/ {s/^fpr:*//; s/:$//; p; q}'): publish that where the artefacts are not"
fi

echo "-- $artefacts: $(find "$artefacts" -type f | wc -l) files"
echo "-- to publish: git fetch $tree tag v$version tag bindings/go/v$version, push both tags, and upload the artefacts"
