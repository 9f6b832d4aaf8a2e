#!/usr/bin/env python3
"""make.py OUT [FOLDER]: write the bundle, C sources that need a C compiler and nothing else.

OUT gets libdlock's sources, those that the build makes (the Lua scripts, etcd's messages), and the parts of hiredis, nghttp2 and
protobuf-c that libdlock uses. The wheels, the sdist, the npm package, the Go module, the crate dlock-sys and a rock are made from it.
FOLDER keeps the source packages; default: build/bundle. README.md beside this file says more.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OPTIONS = ["-Dtests=false", "-Ddemo=false", "-Dcommand=false", "-Dman=disabled", "-Dtls=enabled", "-Dtls_loaded=true",
           "-Detcd=enabled", "-Dzookeeper=enabled"]

# What libdlock uses of each package: C files, headers, the place of the license. A release may lack a file that stands after "?".
VENDORED = {
    "hiredis": (["read.c", "sds.c", "?alloc.c"], ["read.h", "sds.h", "sdsalloc.h", "fmacros.h", "?alloc.h", "?win32.h"], "COPYING"),
    "nghttp2": (["lib/nghttp2_*.c"], ["lib/nghttp2_*.h", "lib/includes/nghttp2/nghttp2.h"], "COPYING"),
    "protobuf-c": (["protobuf-c/protobuf-c.c"], ["protobuf-c/protobuf-c.h"], "LICENSE"),
}
# Every compiler of every package gets these. Those of the hardening are among them as far as cgo allows: level 3 means 2 where there is no 3.
FLAGS = """-std=c11 -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GNU_SOURCE -DNDEBUG -fvisibility=hidden -fPIC -fno-strict-aliasing -w -include compat.h
-DDLI_TLS=1 -DDLI_TLS_LOADED=1 -DDLI_ETCD=1 -DDLI_ZOOKEEPER=1 -DDLOCK_API=__attribute__((visibility("default")))
-DNGHTTP2_STATICLIB -DHAVE_ARPA_INET_H -DHAVE_NETINET_IN_H -DHAVE_TIME_H -DHAVE_CLOCK_GETTIME
-I. -Isrc -Imade -Ithird_party/hiredis -Ithird_party/nghttp2/lib -Ithird_party/nghttp2/lib/includes -Ithird_party/protobuf-c
-Ithird_party/openssl""".split()


def run(*words: object, cwd: pathlib.Path = ROOT) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(map(str, words))}")
    return done.stdout


def fetch(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The sources of this release of the distribution, with its security patches. apt checks their signatures. They are kept for a day."""
    lists, unpacked = folder / "apt", folder / "vendor"
    if (unpacked / "fetched").exists() and time.time() - (unpacked / "fetched").stat().st_mtime < 86400:
        return trees(unpacked)
    shutil.rmtree(unpacked, ignore_errors=True)
    for path in (lists / "lists/partial", unpacked):
        path.mkdir(parents=True, exist_ok=True)
    lines = {f"deb-src {uri} {release} main universe\n" if origin == "Ubuntu" else f"deb-src {uri} {release} main\n"
             for origin, release, uri in
             (line.split("|") for line in run("apt-get", "indextargets", "--format", "$(ORIGIN)|$(RELEASE)|$(REPO_URI)",
                                               "Created-By: Packages").splitlines()) if origin in ("Debian", "Ubuntu")}
    (lists / "sources.list").write_text("".join(sorted(lines)))
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={lists}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
           "-o", f"Dir::State::lists={lists}/lists", "-o", "Dir::Cache::srcpkgcache=", "-o", "Dir::Cache::pkgcache=",
           "-o", "APT::Sandbox::User=root"]
    run(*apt, "update")
    run(*apt, "source", *VENDORED, cwd=unpacked)
    (unpacked / "fetched").touch()
    return trees(unpacked)


def trees(unpacked: pathlib.Path) -> dict[str, pathlib.Path]:
    return {name: next(path for path in unpacked.glob(f"{name}-[0-9]*") if path.is_dir()) for name in VENDORED}


def copy(source: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def vendor(name: str, tree: pathlib.Path, out: pathlib.Path) -> list[str]:
    """Copy the parts of a package. Returns its C files."""
    sources, headers, license_name = VENDORED[name]
    found = []
    for pattern in sources + headers:
        paths = sorted(tree.glob(pattern.lstrip("?")))
        if not paths and not pattern.startswith("?"):
            sys.exit(f"{tree} has no {pattern}")
        for path in paths:
            target = pathlib.Path("third_party", name, path.relative_to(tree))
            copy(path, out / target)
            found += [str(target)] if path.suffix == ".c" else []
    copy(tree / license_name, out / "licenses" / f"{name}.txt")
    return found


def nghttp2_version(tree: pathlib.Path, out: pathlib.Path) -> None:
    """The header that nghttp2's configure would write."""
    version = tree.name.rpartition("-")[2]
    numbers = [int(part) for part in version.split(".")]
    text = (tree / "lib/includes/nghttp2/nghttp2ver.h.in").read_text()
    text = text.replace("@PACKAGE_VERSION@", version)
    text = text.replace("@PACKAGE_VERSION_NUM@", "0x%02x%02x%02x" % tuple(numbers))
    (out / "third_party/nghttp2/lib/includes/nghttp2/nghttp2ver.h").write_text(text)


def openssl_headers(out: pathlib.Path) -> None:
    """The headers of OpenSSL that ours reach: types, numbers and declarations. The functions come from the machine at run time."""
    reached = run("gcc", "-M", "-DDLI_TLS_LOADED=1", "-Isrc", "-Iabi", "src/net/tls_loaded.c", "src/net/tls.c")
    for path in sorted(set(re.findall(r"\S+/openssl/\w+\.h", reached))):
        copy(pathlib.Path(path), out / "third_party/openssl/openssl" / pathlib.Path(path).name)
    version = run("pkg-config", "--modversion", "openssl").strip()
    if not version.startswith("3."):
        sys.exit(f"the headers of OpenSSL 3 are needed, not {version}")
    copy(pathlib.Path("/usr/share/common-licenses/Apache-2.0"), out / "licenses/openssl.txt")


def ours(work: pathlib.Path, out: pathlib.Path) -> list[str]:
    """Copy libdlock's sources, and make those that the build makes. Returns the C files."""
    build = work / "meson"
    shutil.rmtree(build, ignore_errors=True)
    run("meson", "setup", build, ROOT, *OPTIONS)
    run("ninja", "-C", build, "src/redis/scripts/scripts_gen.c", "src/etcd/codec/etcd.pb-c.c")
    listed = [path for target in json.loads(run("meson", "introspect", "--targets", build)) for part in target["target_sources"]
              if target["name"] in ("dlock_internal", "dlock_messages")
              for path in part.get("sources", []) + part.get("generated_sources", [])]
    found = []
    for path in map(pathlib.Path, sorted({name for name in listed if name.endswith(".c")})):
        made = build in path.parents
        target = pathlib.Path("made", path.name) if made else path.relative_to(ROOT)
        copy(path, out / target)
        found.append(str(target))
    copy(build / "src/etcd/codec/etcd.pb-c.h", out / "made/etcd.pb-c.h")
    for path in (ROOT / "src").rglob("*.h"):
        copy(path, out / path.relative_to(ROOT))
    for name in ("abi/dlock.h", "abi/dlock.map", "LICENSE", "packaging/bundle/compat.h", "packaging/bundle/Makefile"):
        copy(ROOT / name, out / pathlib.Path(name).name)
    return found


def own_names(out: pathlib.Path, theirs: list[str]) -> None:
    """Write private.h, which gives the functions of the others names of our own: a program may link another copy of them."""
    header, names = out / "private.h", set()
    header.touch()
    with tempfile.TemporaryDirectory() as folder:
        for source in theirs:
            run("gcc", *FLAGS, "-c", "-o", f"{folder}/one.o", source, cwd=out)
            names |= {line.split()[-1] for line in run("nm", "-g", "--defined-only", f"{folder}/one.o").splitlines() if line}
    header.write_text("".join(f"#define {name} dli_{name}\n" for name in sorted(names)))


def put(made: pathlib.Path, out: pathlib.Path) -> None:
    """Move the new bundle to its place. Files that are as before keep their time, so that make compiles only the others."""
    for path in made.rglob("*"):
        old = out / path.relative_to(made)
        if path.is_file() and old.is_file() and old.read_bytes() == path.read_bytes():
            os.utime(path, ns=(old.stat().st_atime_ns, old.stat().st_mtime_ns))
    shutil.rmtree(out, ignore_errors=True)
    made.rename(out)


def main(place: pathlib.Path, work: pathlib.Path) -> None:
    out = place.with_name(place.name + ".new")
    shutil.rmtree(out, ignore_errors=True)
    trees = fetch(work)
    sources = ours(work, out)
    theirs = [path for path in sources if path.startswith("made/etcd")]
    for name, tree in trees.items():
        found = vendor(name, tree, out)
        sources, theirs = sources + found, theirs + found
    nghttp2_version(trees["nghttp2"], out)
    openssl_headers(out)
    own_names(out, theirs)
    (out / "sources.txt").write_text("\n".join(sources) + "\n")
    (out / "flags.txt").write_text("\n".join(FLAGS) + "\n")
    packages = sorted(path.stem for path in (work / "vendor").glob("*.dsc"))
    (out / "versions.txt").write_text("\n".join(packages) + "\n")
    put(out, place)
    print(f"{place}: {len(sources)} C files; with {', '.join(packages)}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build/bundle").absolute())
