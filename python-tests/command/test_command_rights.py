"""What docs/acl.md says about the rights of the command dlock: they are enough, and without them it names what is denied."""
from __future__ import annotations

from typing import Iterator

import pytest

from harness.acl import rights
from harness.server import Server
from shell import HOLD, Running, dlock, is_sentence

KINDS = ["mutex", "fair", "read-write", "semaphore", "permit-semaphore"]
QUARANTINE = ["+info", "+hmget", "+hset", "+hget", "+time", "~dlock_memory:billing"]
DENIED = 69

# The rights, and what they are enough for.
ENOUGH = [
    (["mutex"], ["run --wait 0 job -- true", "release --force --kind mutex held"]),
    (["fair"], ["run --wait 0 --kind fair line -- true"]),
    (["read-write"], ["run --wait 0 --kind read prices -- true", "run --wait 0 --kind write prices -- true"]),
    (["permit-semaphore"], ["run --wait 0 --kind permit --permits 2 slots -- true", "semaphore show --kind permit slots"]),
    (["semaphore"], ["semaphore set --kind semaphore seats 3", "semaphore show --kind semaphore seats"]),
    (["latch"], ["latch set import 1", "latch show import", "latch down import"]),
    (["mutex", "inspect"], ["inspect --kind mutex held", "bench --for 100ms"]),
    (["mutex", "gate"], ["gate close --kind mutex --for 1m other"]),
    (["semaphore", "permit-semaphore"], ["semaphore set seats 3", "semaphore add seats 1"]),
    ([*KINDS, "inspect"], ["inspect held", "release --force held"]),
    ([*KINDS, "inspect", "gate"], ["gate close --for 1m other", "gate open other"]),
    ([*KINDS, "inspect", "+scan"], ["list --namespace billing", "top --once --namespace billing", "list --all --names"]),
    (["mutex", "+info"], ["check"]),
    (["mutex", *QUARANTINE], ["provision --quarantine 30s"]),
]  # fmt: skip


def allow(server: Server, features: list[str]) -> str:
    """A user with these rights, and the URL with which it comes."""
    rules = [rule for one in features for rule in (rights(one, "billing").rules() if one[0].isalpha() else [one])]
    server.command("ACL", "SETUSER", "billing", "reset", "on", ">word", "resetchannels", "-@all", *rules)
    return f"redis://billing:word@127.0.0.1:{server.port}?namespace=billing"


@pytest.fixture
def server(redis_server: Server) -> Iterator[Server]:
    """The user's lock "held" is held, and so is a lock of another tenant."""
    redis_server.command("FLUSHALL")
    url = redis_server.url
    with Running("run", "billing:held", "--", *HOLD, url=url) as mine, Running("run", "shipping:held", "--", *HOLD, url=url) as theirs:
        assert mine.line() == theirs.line() == "ready"
        yield redis_server
    redis_server.command("ACL", "DELUSER", "billing")


@pytest.mark.parametrize("features, commands", ENOUGH, ids=lambda of: "+".join(one.strip("+~") for one in of) if isinstance(of, list) and " " not in of[0] else "")
def test_enough(server: Server, features: list[str], commands: list[str]) -> None:
    url = allow(server, features)
    for command in commands:
        done = dlock(*command.split(), url=url)
        assert done.returncode in (0, 1) and "NOPERM" not in done.stderr, (command, done)


@pytest.mark.parametrize("command", ["inspect held", "release --force held", "gate close --for 1m held", "list"])
def test_without_a_kind_a_mutex_is_not_enough(server: Server, command: str) -> None:
    """They look for the kind, which the user may not. The page says so."""
    done = dlock(*command.split(), url=allow(server, ["mutex", "inspect", "gate", "+scan"]))
    assert done.returncode == DENIED and "the server says" in done.stderr and is_sentence(done.stderr), done
    assert ("name it with --kind" in done.stderr) == (command != "list"), done  # which has no --kind
    assert server.command("EXISTS", "billing:held") == 1


def test_list_without_a_namespace(server: Server) -> None:
    """The lock of another tenant ends it; its name is no secret to who may scan."""
    url = allow(server, [*KINDS, "inspect", "+scan"]).partition("?")[0]
    done = dlock("list", url=url)
    assert done.returncode == DENIED and "shipping:held" in done.stderr, done
    done = dlock("list", "--names", url=url)
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["billing:held", "shipping:held"])
