"""The other side on ZooKeeper: a program with Java's Curator, python-tests/zookeeper/peer. It is built once.

    with Peer(zookeeper, ttl=5) as peer:
        peer("lock a job")                          # sends a line; lock a job write
        peer.wait("a locked")                       # the words of the first line that begins so
"""
from __future__ import annotations

import fcntl
import subprocess
from typing import Any

from ..build import ROOT, clean_env
from ..etcd.peer import Peer as Lines
from ..java import QUICK, made, program, run

FOLDER = ROOT / "python-tests/zookeeper/peer"
MADE = ROOT / "build/zookeeper-peer"


def prepare() -> str:
    """The class path. Missing parts are fetched and compiled."""
    jars, classes, pom, source = MADE / "jars", MADE / "classes", FOLDER / "pom.xml", FOLDER / "Peer.java"
    MADE.mkdir(parents=True, exist_ok=True)
    with open(MADE / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with made(jars, pom.read_bytes()) as fresh:
            if fresh:
                goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
                run(program("mvn"), "--batch-mode", "--quiet", "--no-transfer-progress", "--file", pom, *goal)
        with made(classes, source.read_bytes(), str(jars)) as fresh:
            if fresh:
                run(program("javac"), "-nowarn", "-d", classes, "-cp", f"{jars}/*", source)
    return f"{classes}:{jars}/*"


class Peer(Lines):
    def __init__(self, zookeeper: Any, ttl: float = 5, java: list[str] = QUICK) -> None:
        command = ["setpriv", "--pdeathsig", "KILL", program("java"), *java, "-cp", prepare(), "Peer"]
        command += [zookeeper.hosts, str(round(ttl * 1000))]
        self.start(command, clean_env())
