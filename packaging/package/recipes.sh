#!/usr/bin/env bash
# recipes.sh: check packaging/recipes. Conan creates its package, with the libraries of this system, and runs a program with it.
#
# A meson project gets libdlock by the wrap file, from a source archive of the last commit, and runs the same program. ruby reads
# Homebrew's formula; vcpkg's manifest is read as JSON. These two are not run by their own tools.
# needs: ruby
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
work=$root/build/recipes
recipes=$work/tree/packaging/recipes
version=$(/usr/bin/python3 "$root/packaging/version.py")
export PATH=/usr/sbin:/usr/bin:/sbin:/bin CONAN_HOME=$work/conan-home

mkdir -p "$work"
rm -rf "$work/tree" "$work/wrap" "$CONAN_HOME"
mkdir -p "$work/tree" "$work/wrap/subprojects/packagefiles" "$work/wrap/subprojects/packagecache"
git -C "$root" archive HEAD | tar -C "$work/tree" -xf -

ruby -c "$recipes/homebrew/libdlock.rb"
/usr/bin/python3 -m json.tool "$recipes/vcpkg/vcpkg.json" >/dev/null
echo "-- Homebrew: ruby reads the formula; vcpkg: the manifest is JSON; neither was run"

git -C "$root" archive --prefix="libdlock-$version/" HEAD | xz -T1 >"$work/wrap/subprojects/packagecache/libdlock-$version.tar.xz"
{ sed '/^\[provide\]/,$d' "$recipes/wrap/dlock.wrap" | sed '/^$/d'
  echo "source_hash = $(sha256sum "$work/wrap/subprojects/packagecache/libdlock-$version.tar.xz" | cut -d ' ' -f 1)"
  sed -n '/^\[provide\]/,$p' "$recipes/wrap/dlock.wrap"; } >"$work/wrap/subprojects/dlock.wrap"
cp "$recipes/conan/test_package/version.c" "$work/wrap"
cat >"$work/wrap/meson.build" <<'END'
project('wrapped', 'c')
executable('version', 'version.c', dependencies: dependency('dlock'))
END
meson setup "$work/wrap/out" "$work/wrap" --wrap-mode=forcefallback -Ddlock:tests=false -Ddlock:demo=false -Ddlock:man=disabled >"$work/wrap.log" 2>&1 &&
    ninja --quiet -C "$work/wrap/out" version >>"$work/wrap.log" 2>&1 || { tail -n 20 "$work/wrap.log"; exit 1; }
"$work/wrap/out/version"
echo "-- meson: a program got libdlock by the wrap file"

"$root/packaging/pinned.sh" "$work/venv" python conan
"$work/venv/bin/conan" profile detect >"$work/conan.log" 2>&1
"$work/venv/bin/conan" create --no-remote "$recipes/conan" --options="libdlock/*:system=True" >>"$work/conan.log" 2>&1 || { tail -n 20 "$work/conan.log"; exit 1; }
grep '^libdlock .* works$' "$work/conan.log"
echo "-- Conan: created with the system's libraries, and tried; with those of Conan's index it was not run"
