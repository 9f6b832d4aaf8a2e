"""What dlock_client_check finds on etcd: members that are down or have no leader, alarms, open doors, versions, missing rights."""
from __future__ import annotations

import os
import subprocess
from typing import Any, Callable

import pytest

from harness.agent import Agent, Client
from harness.build import BUILD
from harness.etcd import Etcd, Node, encoded, url
from harness.proxy import Proxy
from harness.tally import saw

Make = Callable[..., Any]


def findings(client: Client) -> dict[str, str]:
    """The sentence of each finding; of several with one name the last one."""
    return {name: text for name, _, text in client.check(9000).ok.findings}


def follower(etcd: Etcd) -> Node:
    leader = etcd.leader()
    return next(node for node in etcd.nodes if node is not leader)


def test_a_healthy_cluster(etcd: Etcd, agent: Agent) -> None:
    found = findings(agent.open(etcd))
    assert found.keys() - {"OLD_VERSION"} == {"OPEN"}
    assert "enable authentication" in found["OPEN"]


def test_a_member_that_is_down(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd(3)
    down = follower(etcd)
    down.kill()
    found = findings(agent.open(etcd))
    assert found.keys() - {"OLD_VERSION"} == {"OPEN", "NO_ANSWER"}
    assert found["NO_ANSWER"].startswith(f"127.0.0.1:{down.port}: ")


def test_a_member_that_is_stopped(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd(3)
    client = agent.open(etcd, command_timeout_ms=1000)
    stopped = follower(etcd)
    stopped.pause()
    found = findings(client)
    assert "NO_ANSWER" in found and f":{stopped.port}" in found["NO_ANSWER"]


def test_no_leader(new_etcd: Make, agent: Agent) -> None:
    """One of three is left: it answers, and says that it has no leader."""
    etcd = new_etcd(3)
    client = agent.open(etcd)
    for node in etcd.nodes[:2]:
        node.kill()
    found: dict[str, str] = {}
    while "NO_LEADER" not in found:  # until it has noticed
        found = findings(client)
    assert f":{etcd.nodes[2].port}" in found["NO_LEADER"] and "NO_ANSWER" in found


def test_nobody_answers(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd()
    client = agent.open(etcd)
    etcd.nodes[0].kill()
    answer = client.check(3000)
    assert answer.status == "UNREACHABLE" and str(etcd.nodes[0].port) in answer.message, answer


@pytest.mark.parametrize("alarm", ["NOSPACE", "CORRUPT"])
def test_an_alarm(new_etcd: Make, agent: Agent, alarm: str) -> None:
    etcd = new_etcd()
    member = etcd.call("maintenance/status")["header"]["member_id"]
    etcd.call("maintenance/alarm", action="ACTIVATE", alarm=alarm, memberID=member)
    saw(1)
    found = findings(agent.open(etcd))
    assert alarm in found["ALARM"]


def test_a_user_without_rights(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd("--bcrypt-cost", "4")
    for user in ("root", "locks"):
        etcd.call("auth/user/add", name=user, password="secret")
        etcd.call("auth/role/add", name=user)
        etcd.call("auth/user/grant", user=user, role=user)
    etcd.call("auth/role/grant", name="locks", perm={"permType": "READWRITE", "key": encoded("job"), "range_end": encoded("joc")})
    etcd.call("auth/enable")
    found = findings(agent.open(etcd, username="locks", password="secret"))
    assert "OPEN" not in found and "COMMAND_DENIED" in found
    answer = agent.open(etcd, username="locks", password="wrong").check(5000)
    assert answer.status == "DENIED" and "secret" not in answer.message, answer


@pytest.mark.parametrize("version, name", [("3.5.0", "FAULTY_VERSION"), ("3.5.2", "FAULTY_VERSION"), ("3.4.1", "OLD_VERSION"), ("3.5.9", ""), ("3.6.4", "")])
def test_versions(etcd: Etcd, agent: Agent, version: str, name: str) -> None:
    """A proxy changes the version in the answer of a real member."""
    real = etcd.call("maintenance/status")["version"]
    proxy = Proxy((etcd.nodes[0].host, etcd.nodes[0].port))
    try:
        series, _, patch = version.rpartition(".")
        proxy.down.swap = (real.encode(), f"{series}.{patch.zfill(len(real) - len(series) - 1)}".encode())
        found = findings(agent.open(url(proxy)))
        assert found.keys() - {"OPEN"} == ({name} if name else set()) and proxy.down.fired["swap"] > 0
    finally:
        proxy.close()


def test_the_command(new_etcd: Make) -> None:
    """dlock check names the member and has the advice."""
    etcd = new_etcd(3)
    down = follower(etcd)
    down.kill()
    done = subprocess.run([BUILD / "tools/dlock/dlock", "check"], capture_output=True, text=True, env={**os.environ, "DLOCK_URL": etcd.url})
    assert f"127.0.0.1:{down.port}" in done.stdout + done.stderr and "enable authentication" in done.stdout + done.stderr
