"""The manual: every program in it runs and prints what the page says, every link has a target, every status has its entry."""
from __future__ import annotations

import ctypes
import pathlib
import re
import shutil
import sqlite3
import subprocess

import pytest

from harness.acl import rights
from harness.build import LIBRARY, ROOT, clean_env
from harness.programs import RUN, URL, Block, blocks, marks, run

MANUAL = sorted((ROOT / "docs").glob("*.md"))
API = ROOT / "docs/api.md"
PAGES = [*MANUAL, *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG", "bindings/python/README", "bindings/rust/dlock/README"))]
BLOCKS = [block for page in PAGES for block in blocks(page)]
OTHERS = ("sh", "sql", "text")  # and the languages of RUN


def id_of(block: Block) -> str:
    return f"{block.page.relative_to(ROOT).with_suffix('')}-{block.language}-{block.line}".removeprefix("docs/")


def test_every_block_is_of_a_language_that_is_tried() -> None:
    """Indented blocks are not allowed: no test would run them."""
    assert {block.language for block in BLOCKS} <= {*RUN, *OTHERS}
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
        indented = re.findall(r"\n\n    .*", prose)
        assert not indented, f"{page.name}: {indented[0]}"


# ---- programs


def programs() -> list[object]:
    found = [block for block in BLOCKS if block.language in RUN and block.page not in (API, ROOT / "README.md")]  # the README's: test_readme.py
    return [pytest.param(block, id=id_of(block), marks=marks(block.language)) for block in found]


@pytest.mark.house
@pytest.mark.timeout(300)  # Go compiles its standard library once
@pytest.mark.parametrize("block", programs())
def test_program(redis_server, tmp_path: pathlib.Path, block: Block) -> None:
    """It prints what the page says, with other tokens."""
    assert (URL in block.body or '"memory:' in block.body or "Memory()" in block.body) and block.output
    shown = re.sub(r"\b17\d{14}\b", r"\\d{16}", re.escape(block.output).replace("\\\n", "\n"))
    assert re.fullmatch(shown, run(block, redis_server.url, tmp_path))


# ---- other blocks


def test_declarations(tmp_path: pathlib.Path) -> None:
    """Those of docs/api.md compile as C, together and in their order."""
    source = "#include <stddef.h>\n#include <stdint.h>\n" + "\n".join(block.body for block in BLOCKS if (block.page, block.language) == (API, "c"))
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-xc", "-fsyntax-only", "-"]
    subprocess.run(command, input=source, text=True, check=True, env=clean_env())


@pytest.mark.parametrize("block", [pytest.param(block, id=id_of(block)) for block in BLOCKS if block.language == "sql"])
def test_statements(block: Block) -> None:
    """Those of docs/fencing.md: a token that is too low matches no row."""
    if sqlite3.sqlite_version_info < (3, 35):
        pytest.skip("this SQLite has no RETURNING")
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, left_over INTEGER, fence INTEGER)")
    db.execute("INSERT INTO stock VALUES (1, 20, 6)")
    read, write = re.sub(r"--.*", "", block.body).strip().split(";")[:2]
    for token, rows in ((7, 1), (6, 0), (7, 1), (8, 1), (7, 0)):
        values = {"id": 1, "token": token, "n": 19}
        assert len(db.execute(read, values).fetchall()) == rows
        assert db.execute(write, values).rowcount == rows


@pytest.mark.house
@pytest.mark.parametrize("block", [pytest.param(block, id=id_of(block)) for block in BLOCKS if block.language == "sh"])
def test_commands(block: Block) -> None:
    """They are valid shell, and what they name exists: commands of ./dev, files, options of the build."""
    subprocess.run(["bash", "-n"], input=block.body, text=True, check=True)
    usage = subprocess.run([ROOT / "dev"], text=True, capture_output=True).stderr
    known = set(re.findall(r"^\./dev ([\w-]+)", usage, re.M))
    options = (ROOT / "meson_options.txt").read_text()
    for line in block.body.splitlines():
        line = line.partition("#")[0]
        for name in re.findall(r"\./dev ([\w-]+)", line):
            assert name in known, line
        for path in re.findall(r"(?<![\w/.=-])(?:\./)?((?:bindings|python-tests|packaging|abi|docs|src)/[\w./-]*)", line):
            assert (ROOT / path).exists() or (ROOT / path).parent.exists(), line
        for name in re.findall(r"-D(\w+)=", line):
            assert f"'{name}'" in options or name in ("buildtype", "b_sanitize", "prefer_static"), line


@pytest.mark.parametrize("block", [pytest.param(block, id=id_of(block)) for block in BLOCKS if re.search("^[a-z+]+://", block.body, re.M) and block.language == "text" and block.page != API])
def test_urls(block: Block) -> None:
    """The library accepts them: opening connects to nothing. The files that they name do not exist."""
    import dlock

    urls = [line.split()[0] for line in block.body.splitlines() if re.match(r"(rediss?(\+\w+)?|etcds?|zookeepers?)://|memory:", line)]
    assert urls
    for url in urls:
        url = re.sub(r"&?tls_\w+_file=[^&]*", "", url)
        dlock.Client(url).close()


def test_rights(redis_server, tmp_path: pathlib.Path) -> None:
    """A shell takes the example of docs/acl.md as it is written, and the user has just the rights of the page."""
    words = tmp_path / "words"
    (tmp_path / "redis-cli").write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >>{words}\n')
    (tmp_path / "redis-cli").chmod(0o755)
    shown = [block for block in BLOCKS if "ACL SETUSER" in block.body]
    assert [block.language for block in shown] == ["sh"]
    subprocess.run(["bash", "-e"], input=shown[0].body, text=True, check=True, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert {path.name for path in tmp_path.iterdir()} == {"words", "redis-cli"}
    typed = words.read_text().split("\0")[:-1]
    assert typed[:7] == ["ACL", "SETUSER", "billing", "reset", "on", ">secret", "resetchannels"]
    assert typed[7:] == ["-@all", *rights("mutex", "billing").rules()]
    assert redis_server.command(*typed) == "OK"
    with redis_server.client() as client:
        client.command("AUTH", "billing", "secret")
        assert client.command("PING") == "PONG"
    redis_server.command("ACL", "DELUSER", "billing")


# ---- links


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: pathlib.Path) -> set[str]:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose, re.M):
        name, count = slug(heading), 0
        while name in found:
            count += 1
            name = f"{slug(heading)}-{count}"
        found.add(name)
    return found


def links(page: pathlib.Path) -> list[str]:
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.M | re.S)
    inline = re.findall(r"\]\(([^)\s]+)\)", prose)
    defined = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", prose, re.M))
    used = set(re.findall(r"\]\[([^\]]+)\]", prose))
    assert used == defined.keys(), f"{page.name}: {used ^ defined.keys()}"
    return [*inline, *defined.values(), *re.findall(r'(?:src|srcset)="([^"]+)"', prose)]


@pytest.mark.house
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: pathlib.Path) -> None:
    for link in links(page):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists() and target.is_relative_to(ROOT), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


@pytest.mark.house
@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_site(tmp_path: pathlib.Path) -> None:
    """./dev docs builds it, and fails on a link or an anchor without a target."""
    tree = tmp_path / "tree"
    linked = {(page.parent / link).resolve().relative_to(ROOT).parts[0] for page in MANUAL for link in links(page) if link.startswith("../")}
    for name in [name for name in {"docs", *linked} if (ROOT / name).is_dir()]:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for page in [page for page in PAGES if page.parent == ROOT]:
        shutil.copy(page, tree)
    command = ["/usr/bin/python3", "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", tree / "docs", tmp_path / "site"]
    good = subprocess.run(command, text=True, capture_output=True, env=clean_env())
    assert (good.returncode, good.stderr) == (0, "") and "Fencing tokens" in (tmp_path / "site/README.html").read_text()
    for bad in ("[x](nowhere.md)", "[x](levels.md#nowhere)", "[x](#nowhere)", "[x](../nowhere.py)"):
        page = tree / "docs/tls.md"
        whole = page.read_text()
        page.write_text(whole + "\n" + bad + "\n")
        done = subprocess.run(command, text=True, capture_output=True, env=clean_env())
        assert done.returncode != 0 and "nowhere" in done.stderr, bad
        page.write_text(whole)


@pytest.mark.house
def test_every_page_is_in_the_manual() -> None:
    assert {page.name for page in MANUAL} - {"README.md"} <= set(links(ROOT / "docs/README.md"))


# ---- statuses, causes, findings


def names_of(count: str, at: str, name: str) -> set[str]:
    library = ctypes.CDLL(str(LIBRARY))
    call = getattr(library, name)
    call.argtypes, call.restype = [ctypes.c_int32], ctypes.c_char_p
    getattr(library, count).restype = ctypes.c_size_t
    return {call(getattr(library, at)(ctypes.c_size_t(index))).decode() for index in range(getattr(library, count)())}


def test_every_status_has_its_entry() -> None:
    """What happened, and what to do."""
    page = (ROOT / "docs/operating.md").read_text()
    entries = re.findall(r"^\| `DLOCK_(\w+)` \| ([^|]+) \| ([^|]+) \|$", page, re.M)
    names = [name for name, _, _ in entries]
    assert len(names) == len(set(names))
    assert set(names) == names_of("dlock_status_count", "dlock_status_at", "dlock_status_name")
    assert all(len(happened) > 10 and do.strip() for _, happened, do in entries)


def test_every_cause_and_finding_has_its_entry() -> None:
    page, header = (ROOT / "docs/operating.md").read_text(), (ROOT / "abi/dlock.h").read_text()
    for prefix in ("CAUSE", "FINDING"):
        for name in set(re.findall(rf"DLOCK_{prefix}_(\w+) = [1-9]", header)):
            assert re.search(rf"^\| `{name}` \|", page, re.M), name
