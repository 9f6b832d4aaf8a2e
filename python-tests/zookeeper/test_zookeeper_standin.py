"""A caller that waits does the I/O of its client's thread, on ZooKeeper: src/lanes/standin.c."""
from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest

from harness.agent import Agent
from harness.engines import standin
from harness.late import Late
from harness.zookeeper import Zookeeper, url

Make = Callable[..., Any]


def place_of(zookeeper: Zookeeper) -> standin.Place:
    return standin.Place(zookeeper, lambda name: len(zookeeper.nodes(name)))


def test_calls_without_the_thread(zookeeper: Zookeeper, new_agent: Make, tmp_path: pathlib.Path) -> None:
    standin.calls_without_the_thread(Late(tmp_path, new_agent), place_of(zookeeper))


def test_a_grant_without_the_thread(zookeeper: Zookeeper, new_agent: Make, tmp_path: pathlib.Path) -> None:
    standin.a_grant_without_the_thread(Late(tmp_path, new_agent), place_of(zookeeper), new_agent)


def test_for_others(zookeeper: Zookeeper, new_agent: Make, tmp_path: pathlib.Path) -> None:
    standin.for_others(Late(tmp_path, new_agent), place_of(zookeeper), new_agent)


def test_who_stood_in_has_left(zookeeper: Zookeeper, agent: Agent, new_agent: Make) -> None:
    standin.who_stood_in_has_left(agent, place_of(zookeeper), new_agent)


def test_ended(zookeeper: Zookeeper, agent: Agent, new_agent: Make) -> None:
    standin.ended(agent, place_of(zookeeper), new_agent)


def test_closed_without_an_answer(zookeeper: Zookeeper, agent: Agent) -> None:
    member = zookeeper.members[0]
    standin.closed_without_an_answer(agent, place_of(zookeeper), member.pause, member.resume)


def test_late_without_the_thread(zookeeper: Zookeeper, new_agent: Make, tmp_path: pathlib.Path) -> None:
    member = zookeeper.members[0]
    standin.late_without_the_thread(Late(tmp_path, new_agent), place_of(zookeeper), member.pause, member.resume)


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_the_connection_breaks(zookeeper: Zookeeper, agent: Agent, new_agent: Make, new_proxy: Make, how: str) -> None:
    proxy, place = new_proxy(zookeeper.members[0]), place_of(zookeeper)
    other = standin.Other(new_agent(), place)
    client = standin.client_of(agent, standin.Place(url(proxy), place.waiting))
    standin.the_connection_breaks(client, proxy, place, other, how)
