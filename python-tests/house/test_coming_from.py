"""docs/coming-from.md: each new call runs, row by row. Old calls of redis-py run beside them; those of Redisson are looked up."""
from __future__ import annotations

import pathlib
import re
import zipfile
from typing import Any

import pytest

from harness.build import ROOT
from harness.java import VERSIONS, prepare
from harness.programs import URL, go

PAGE = (ROOT / "docs/coming-from.md").read_text()


def table(name: str) -> list[tuple[str, str]]:
    """Old and new calls."""
    lines = re.search(rf"^\| {name} \| libdlock \|.*\n\| --- .*\n((?:\|.*\n)+)", PAGE, re.M)
    assert lines, name
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", lines[1], re.M)
    assert len(rows) == lines[1].count("\n")
    return rows


def does(call: str, names: dict[str, Any]) -> Any:
    """The value of an expression; None for a statement."""
    try:
        code = compile(call, call, "eval")
    except SyntaxError:
        return exec(call, names)
    return eval(code, names)


@pytest.mark.house
def test_redis_py(redis_server) -> None:
    """Old and new calls agree where they return a boolean."""
    redis = pytest.importorskip("redis", reason="python3-redis is missing")
    import dlock

    old, new = {"redis": redis}, {"dlock": dlock}
    for before, after in table("redis-py"):
        port = f"port={redis_server.port}"
        was = does(before.replace("port=6379", port), old)
        now = does(after.replace(URL, redis_server.url + "/1"), new)
        assert not isinstance(now, bool) or now == was, after
    with old["r"].lock("mine", timeout=30), pytest.raises(dlock.WrongKind):  # two libraries on one name
        with dlock.Client(redis_server.url) as client:
            client.lock("mine").acquire()
    new["client"].close()


def test_redisson(redis_server) -> None:
    import dlock

    names: dict[str, Any] = {"dlock": dlock}
    for _, call in table("Redisson"):
        assert does(call.replace(URL, redis_server.url), names) is not False, call
    names["client"].close()


@pytest.mark.full
def test_names_of_redisson() -> None:
    """Each method that the page names is in one of Redisson's interfaces, or in a factory of them."""
    known = b""
    folder = pathlib.Path(prepare(VERSIONS[0]).rpartition(":")[2]).parent
    for jar in folder.glob("redisson-[0-9]*.jar"):
        with zipfile.ZipFile(jar) as file:
            wanted = [name for name in file.namelist() if re.fullmatch(r"org/redisson/(api/R\w+|Redisson)\.class", name)]
            known = b"".join(file.read(name) for name in wanted)
    assert known
    for call, _ in table("Redisson"):
        for name in re.findall(r"\b(\w+)\(", call):
            # The constant pool has a method's name: its length in two bytes, then its text.
            assert len(name).to_bytes(2, "big") + name.encode() in known, call


@pytest.mark.house
@pytest.mark.timeout(300)
def test_redsync(redis_server, tmp_path: pathlib.Path) -> None:
    lines = []
    for _, call in table("redsync"):
        call = re.sub(r" :=", " =", call.replace(URL, redis_server.url))
        if "grant, err" in call:
            lines.append("if grant != nil { grant.Unlock(ctx) }")
        lines.append(call if " = " in call else f"_ = {call}")
        lines.append('if err != nil { log.Fatal(err) }')
    body = "\n".join(lines)
    output = go(
        'package main\n\nimport (\n"context"\n"fmt"\n"log"\n"time"\n\ndlock "github.com/libdlock/libdlock/bindings/go"\n)\n\n'
        "func main() {\nctx := context.Background()\nvar client *dlock.Client\nvar lock *dlock.Lock\nvar grant *dlock.Grant\nvar err error\n"
        f'{body}\nclient.Close()\nfmt.Println("done")\n}}\n',
        tmp_path,
    )
    assert output == "done\n"
