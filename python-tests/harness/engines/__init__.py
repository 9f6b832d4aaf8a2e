"""The column of an engine in the table of scenarios: what the engine has answers as on Redis; what it lacks is refused."""
from __future__ import annotations

import tomllib
from typing import Any, Callable

import pytest

from harness.scenarios import FOLDER, RUNNERS, Scenario, Stage, Wrong, cell, few, scenarios

REFUSALS = {"UNSUPPORTED", "INVALID_OPTION"}


class ElsewhereStage(Stage):
    """Its server has one URL, which the scenarios call $URL."""

    def line(self, text: str) -> str:
        return text.replace("$URL", self.server.url)


class Emptied:
    """Goes before the class of a server that can be cleared: the one command that a stage gives its server."""

    clear: Callable[[], None]

    def command(self, *words: str) -> Any:
        if words[0] == "FLUSHALL":
            self.clear()


def in_words(scenario: Scenario, words: list[str]) -> bool:
    return bool({word.partition("=")[0] for step in scenario.steps for word in step.line.split()} & set(words))


class Column:
    """has: scenarios that are answered as on Redis. refused: those that the engine refuses."""

    def __init__(self, engine: str, url: str = "$URL") -> None:
        """url: scenarios without this text have nothing to do with the engine."""
        lacks = tomllib.loads((FOLDER / "engines.toml").read_text())[engine]
        table = [one for one in scenarios() if not one.config and one.name not in lacks["other"] and any(url in step.line for step in one.steps)]
        self.has = [one for one in table if not in_words(one, lacks["words"])]
        self.refused = [one for one in table if one not in self.has and one.name not in lacks["anyway"]]

    def cells(self) -> list[Any]:
        """The bindings do not see the engine."""
        return [cell(one, runner, few) for one in self.has for runner in RUNNERS if not one.lacking(runner)]


def check_refused(stage: Stage, scenario: Scenario) -> None:
    with pytest.raises(Wrong) as wrong:
        stage.play(scenario, "c")
    assert str(wrong.value).splitlines()[-1].rsplit(": ", 1)[1].split(", not ")[0] in REFUSALS
