"""The library's scripts as the server gets them: SCRIPTS[stem] is the text, SHA[stem] is what EVALSHA sends and hooks look for."""
from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import re

from ..build import ROOT
from ..kinds import calls
from ..resp import Client
from ..server import Server


FOLDER = ROOT / "src/redis/scripts"


def path_of(stem: str, folder: pathlib.Path = FOLDER) -> pathlib.Path:
    """Scripts are in folders by kind; no two have the same name."""
    (path,) = folder.glob(f"*/{stem}.lua")
    return path


def load(stem: str) -> str:
    spec = importlib.util.spec_from_file_location("embed", FOLDER / "embed.py")
    assert spec and spec.loader
    embed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(embed)
    return "".join(line + "\n" for line in embed.load(path_of(stem)))


NAMES = re.findall(r"^    DLI_SCRIPT_(\w+),", (FOLDER / "scripts.h").read_text(), re.M)
SCRIPTS = {stem: load(stem) for stem in map(str.lower, NAMES)}
SHA = {stem: hashlib.sha1(text.encode()).hexdigest() for stem, text in SCRIPTS.items()}


def teach(server: Server) -> None:
    """Loads the scripts into the server."""
    for stem, text in SCRIPTS.items():
        assert server.command("SCRIPT", "LOAD", text).decode() == SHA[stem]


def commands(redis: Client) -> dict[str, int]:
    """How often each command was called, in the server's statistics."""
    rows = redis.command("INFO", "commandstats").decode().split()
    return {row.split(":")[0][8:]: int(row.split("calls=")[1].split(",")[0]) for row in rows if row.startswith("cmdstat_")}


def runs(server: Server) -> int:
    """How many scripts the server has run, by SHA or by text."""
    return calls(server, "evalsha") + calls(server, "eval")
