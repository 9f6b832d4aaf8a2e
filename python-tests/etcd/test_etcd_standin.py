"""A caller that waits does the I/O of its client's thread, on etcd: src/lanes/standin.c."""
from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest

from harness.agent import Agent
from harness.engines import standin
from harness.etcd import Etcd, url
from harness.late import Late

Make = Callable[..., Any]


def place_of(etcd: Etcd) -> standin.Place:
    return standin.Place(etcd, lambda name: len(etcd.keys(f"{name}/")))


def test_calls_without_the_thread(etcd: Etcd, new_agent: Make, tmp_path: pathlib.Path) -> None:
    standin.calls_without_the_thread(Late(tmp_path, new_agent), place_of(etcd))


def test_a_grant_without_the_thread(etcd: Etcd, new_agent: Make, tmp_path: pathlib.Path) -> None:
    standin.a_grant_without_the_thread(Late(tmp_path, new_agent), place_of(etcd), new_agent)


def test_for_others(etcd: Etcd, new_agent: Make, tmp_path: pathlib.Path) -> None:
    standin.for_others(Late(tmp_path, new_agent), place_of(etcd), new_agent)


def test_who_stood_in_has_left(etcd: Etcd, agent: Agent, new_agent: Make) -> None:
    standin.who_stood_in_has_left(agent, place_of(etcd), new_agent)


def test_ended(etcd: Etcd, agent: Agent, new_agent: Make) -> None:
    standin.ended(agent, place_of(etcd), new_agent)


def test_closed_without_an_answer(etcd: Etcd, agent: Agent) -> None:
    node = etcd.nodes[0]
    standin.closed_without_an_answer(agent, place_of(etcd), node.pause, node.resume)


def test_late_without_the_thread(etcd: Etcd, new_agent: Make, tmp_path: pathlib.Path) -> None:
    node = etcd.nodes[0]
    standin.late_without_the_thread(Late(tmp_path, new_agent), place_of(etcd), node.pause, node.resume)


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_the_connection_breaks(etcd: Etcd, agent: Agent, new_agent: Make, new_proxy: Make, how: str) -> None:
    proxy, place = new_proxy(etcd.nodes[0]), place_of(etcd)
    other = standin.Other(new_agent(), place)
    client = standin.client_of(agent, standin.Place(url(proxy), place.waiting))
    standin.the_connection_breaks(client, proxy, place, other, how)
