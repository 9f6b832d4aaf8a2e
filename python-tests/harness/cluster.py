"""A Redis Cluster of primaries, each with replicas, on loopback.

    with Cluster(primaries=3, replicas=1) as cluster:
        cluster.url                                 # redis+cluster://...
        cluster.owner("name")                       # the Server that owns the slot of a key now
        cluster.slot("name")                        # that slot; cluster.key(slot) is a key of a slot
        cluster.command("GET", "name", key="name")  # one command at the owner of the key
        cluster.failover(server)                    # orders its replica to take over; returns when all nodes know
        cluster.migrate(slot, target)               # a live move, key by key, as redis-cli does it
"""
from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
from typing import Any, Callable, Iterator

from .resp import Client, ReplyError
from .server import Server, free_port
from .sentinel import ask

SLOTS = 16384


def crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def slot_of(key: str | bytes) -> int:
    data = key if isinstance(key, bytes) else key.encode()
    start = data.find(b"{")
    end = data.find(b"}", start + 1) if start >= 0 else -1
    return crc16(data[start + 1 : end] if end > start + 1 else data) % SLOTS


def until(condition: Callable[[], Any], timeout: float = 30) -> Any:
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.02)
    return found


class Node(Server):
    def __init__(self, timeout_ms: int, *options: str, secured: tuple[str, ...] = (), island: Any = None) -> None:
        self.bus = free_port()
        self.timeout_ms = timeout_ms
        super().__init__(
            *("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", str(self.bus)),
            *("--cluster-node-timeout", str(timeout_ms), "--cluster-require-full-coverage", "no"),
            *("--cluster-replica-validity-factor", "0", "--cluster-migration-barrier", "99"),
            *("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--cluster-slave-validity-factor", "0"),
            *options,
            secured=secured,
            island=island,
        )

    @functools.cached_property
    def id(self) -> bytes:
        found: bytes = ask(self, "CLUSTER", "MYID")
        return found


def sharded(words: tuple[Any, ...]) -> tuple[Any, ...]:
    """A command about a lock's channel in its sharded form, as Redisson sends it to a cluster."""
    verb, *rest = words
    about = [word.encode() if isinstance(word, str) else word for word in rest if isinstance(word, (str, bytes))]
    lock = bool(about) and about[0].startswith(b"redisson_")
    if verb in ("SUBSCRIBE", "UNSUBSCRIBE", "PUBLISH") and lock:
        return ("S" + verb, *rest)
    if verb == "PUBSUB" and rest[0] == "NUMSUB" and about[1].startswith(b"redisson_"):
        return (verb, "SHARDNUMSUB", *rest[1:])
    if verb == "EVAL":
        return (verb, rest[0].replace("'PUBLISH'", "'SPUBLISH'"), *("SPUBLISH" if word == "PUBLISH" else word for word in rest[1:]))
    return words


class Speaker(Client):
    """A client that sends sharded commands and returns replies as a single server would."""

    def command(self, *words: Any) -> Any:
        if words[0] in ("DEL", "EXISTS", "UNLINK"):
            return sum(super(Speaker, self).command(words[0], key) for key in words[1:])
        if words[0] == "MGET":
            return [super(Speaker, self).command("GET", key) for key in words[1:]]
        if words[0] == "MSET":
            return [super(Speaker, self).command("SET", *words[at : at + 2]) for at in range(1, len(words), 2)][0]
        return super().command(*sharded(words))

    def send(self, *words: Any) -> None:
        super().send(*sharded(words))

    def read(self) -> Any:
        reply = super().read()
        if isinstance(reply, list) and reply and reply[0] in (b"ssubscribe", b"sunsubscribe", b"smessage"):
            reply[0] = reply[0][1:]
        return reply


class Lone(Node):
    """A cluster of one server that stands in for a server: ./dev test --cluster FILE uses such clusters."""

    def __init__(self, *options: str) -> None:
        super().__init__(1000, *options)

    def start(self) -> None:
        fresh = not (self.folder / "nodes.conf").exists()
        super().start()
        if fresh:
            ask(self, "CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        until(lambda: b"cluster_state:ok" in ask(self, "CLUSTER", "INFO"))

    @property
    def url(self) -> str:
        return f"redis+cluster://{self.host}:{self.port}"

    unix_url = url

    def client(self, timeout: float = 5) -> Client:
        return Speaker(path=self.path, timeout=timeout)

    def command(self, *words: Any) -> Any:
        found = super().command(*words)
        if words[:2] == ("PUBSUB", "CHANNELS"):
            found += super().command("PUBSUB", "SHARDCHANNELS", *words[2:])
        return found


class Pulse:
    """The longest time that servers let a PING wait while the body runs. It tells a stalled machine from a lost wake-up."""

    def __init__(self, nodes: list[Node]) -> None:
        self.longest = {node.port: 0.0 for node in nodes}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=[node]) for node in nodes]

    def _ask(self, node: Node) -> None:
        with node.client(timeout=60) as client:
            while not self._stop.wait(0.02):
                began = time.monotonic()
                client.command("PING")
                self.longest[node.port] = max(self.longest[node.port], time.monotonic() - began)

    def __str__(self) -> str:
        return "longest without an answer: " + ", ".join(f"{port} {seconds:.2f} s" for port, seconds in self.longest.items())

    def __enter__(self) -> Pulse:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Cluster:
    slot = staticmethod(slot_of)

    def __init__(
        self, primaries: int = 3, replicas: int = 1, timeout_ms: int = 1000, *options: str, secured: tuple[str, ...] = (), island: Any = None
    ) -> None:
        """island: the first primary is there."""
        self.nodes = [Node(timeout_ms, *options, secured=secured, island=island)]
        self.nodes += [Node(timeout_ms, *options, secured=secured) for _ in range(primaries * (1 + replicas) - 1)]
        self.keys: dict[int, str] = {}
        first = self.nodes[:primaries]
        for index, node in enumerate(self.nodes):
            ask(node, "CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            for other in self.nodes[:index]:
                ask(node, "CLUSTER", "MEET", other.host, other.port, other.bus)
        for index, node in enumerate(first):
            low, high = index * SLOTS // primaries, (index + 1) * SLOTS // primaries - 1
            ask(node, "CLUSTER", "ADDSLOTSRANGE", low, high)
        until(lambda: all(len(ask(n, "CLUSTER", "NODES").splitlines()) == len(self.nodes) for n in self.nodes))
        for index, node in enumerate(self.nodes[primaries:]):
            until(lambda: self._follows(node, first[index % primaries]))
        self.until_settled()

    @staticmethod
    def _follows(node: Node, primary: Node) -> bool:
        with contextlib.suppress(ReplyError):
            ask(node, "CLUSTER", "REPLICATE", primary.id)
            return True
        return False

    # ---- state

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{node.host}:{node.port}" for node in self.nodes if node.process)

    def admit(self, name: str, secret: str, *rules: str) -> str:
        """A user with these rights on every node. Returns the URL with it."""
        for node in self.running():
            ask(node, "ACL", "SETUSER", name, "reset", "on", ">" + secret, *rules)
        return self.url.replace("//", f"//{name}:{secret}@")

    def without(self, command: str) -> str:
        """The URL with a user who has every right but one."""
        return self.admit(f"no-{command}", "s3cret-canary", "~*", "&*", "+@all", f"-{command}")

    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.process]

    def owners(self, node: Node | None = None) -> dict[int, Node]:
        """Who owns which slot, in the view of one node."""
        by_id = {one.id: one for one in self.nodes if one.process or "id" in vars(one)}
        found = {}
        for low, high, primary, *_ in ask(node or self.running()[0], "CLUSTER", "SLOTS"):
            found.update(dict.fromkeys(range(low, high + 1), by_id[primary[2]]))
        return found

    @staticmethod
    def epochs(node: Node) -> dict[bytes, bytes]:
        """The epoch of each primary's claims, in the view of one node."""
        lines = [line.split() for line in ask(node, "CLUSTER", "NODES").splitlines()]
        return {words[0]: words[6] for words in lines if b"master" in words[2] and b"fail" not in words[2]}

    def owner(self, key: str | bytes | int) -> Node:
        return self.owners()[key if isinstance(key, int) else slot_of(key)]

    def primaries(self) -> list[Node]:
        return sorted(set(self.owners().values()), key=lambda node: node.port)

    def replica_of(self, primary: Node) -> Node:
        wanted = primary.id
        for node in self.running():
            for line in ask(node, "CLUSTER", "NODES").splitlines():
                words = line.split()
                if b"myself" in words[2] and words[3] == wanted:
                    return node
        raise AssertionError("no replica")

    def key(self, slot: int, prefix: str = "k") -> str:
        """Some key of the slot."""
        if not self.keys:
            number = 0
            while len(self.keys) < SLOTS:
                self.keys.setdefault(slot_of(f"{number}"), str(number))
                number += 1
        return f"{prefix}{{{self.keys[slot]}}}"

    def key_of(self, node: Node, prefix: str = "k") -> str:
        """Some key of a primary."""
        return self.key(next(slot for slot, owner in self.owners().items() if owner is node), prefix)

    def command(self, *words: Any, key: str | bytes) -> Any:
        return ask(self.owner(key), *words)

    def all(self, *words: Any) -> list[Any]:
        return [ask(node, *words) for node in self.primaries()]

    def flush(self) -> None:
        try:
            self.all("FLUSHALL")
        except ReplyError:  # a primary that was starved has been replaced in between
            self.until_settled()
            self.all("FLUSHALL")

    # ---- changes

    def settled(self) -> bool:
        """Whether all live nodes see the same owners, of the same epochs, and a cluster that is up, and replicas are in sync. Without the
        epochs a late message of an earlier owner can undo a view.
        """
        views = []
        for node in self.running():
            try:
                if b"cluster_state:ok" not in ask(node, "CLUSTER", "INFO"):
                    return False
                if b"master_link_status:down" in ask(node, "INFO", "replication"):
                    return False
                views.append((self.owners(node), self.epochs(node)))
            except ReplyError:  # still loading
                return False
        return all(view == views[0] and len(view[0]) == SLOTS for view in views)

    def until_settled(self, timeout: float = 60) -> None:
        until(self.settled, timeout)

    def failover(self, primary: Node, how: str = "") -> Node:
        """The replica of a primary takes over. Returns that replica."""
        replica = self.replica_of(primary)
        while True:  # Redis 7.0 may take a second failover back when it follows another one at once
            until(lambda: self.order(replica, how))
            self.until_settled()
            if replica in self.primaries():
                return replica

    @staticmethod
    def order(replica: Node, how: str = "") -> bool:
        """Orders a replica to take over. Returns whether it has."""
        if b"role:master" in ask(replica, "INFO", "replication"):
            return True
        with contextlib.suppress(ReplyError):
            ask(replica, "CLUSTER", "FAILOVER", *([how] if how else []))
        time.sleep(0.1)
        return False

    @contextlib.contextmanager
    def moving(self, slot: int, target: Node, primaries: list[Node] | None = None, source: Node | None = None) -> Iterator[tuple[Node, Node]]:
        """Migrates the slot to target while the body runs. The body moves keys; at the end the slot is at target. Missing arguments are
        queried.
        """
        primaries, source = primaries or self.primaries(), source or self.owner(slot)
        ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        try:
            yield source, target
        finally:
            self.move_keys(slot, source, target)
            self.assign(slot, target, [source, *primaries])

    @staticmethod
    def move_keys(slot: int, source: Node, target: Node, most: int | None = None) -> int:
        """Moves keys of the slot. Returns how many."""
        moved = 0
        while most is None or moved < most:
            keys = ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 1 if most else 10)
            if not keys:
                break
            ask(source, "MIGRATE", target.host, target.port, "", 0, 5000, "REPLACE", "KEYS", *keys)
            moved += len(keys)
        return moved

    @staticmethod
    def newest(node: Node) -> int:
        """The newest epoch that a node knows of."""
        found = re.search(rb"cluster_current_epoch:(\d+)", ask(node, "CLUSTER", "INFO"))
        return int(found[1]) if found else 0

    @staticmethod
    def assign(slot: int, target: Node, nodes: list[Node]) -> None:
        """Tells target first, then the others in this order, each once. A target that takes its own epoch for the newest gives its claim no
        new one. Then a late message of the last owner, whose epoch is newer, undoes the claim, and nobody has the slot, without an end.
        """
        until(lambda: Cluster.newest(target) >= max(map(Cluster.newest, nodes)))
        for node in dict.fromkeys([target, *nodes]):
            ask(node, "CLUSTER", "SETSLOT", slot, "NODE", target.id)

    @staticmethod
    def insist(slot: int, key: str, target: Node, primaries: list[Node]) -> None:
        """The slot stays at target. Gossip that was under way when it moved can give it back to its last owner, which refuses it: then each of
        the two sends clients to the other, without an end.
        """
        try:
            ask(target, "EXISTS", key)
        except ReplyError:
            Cluster.assign(slot, target, primaries)

    def migrate(self, slot: int, target: Node) -> None:
        """Each node is asked about itself: late gossip can make another one name an earlier owner."""
        source = next((node for node in self.running() if self.owners(node).get(slot) is node), None)
        if source is not target:
            with self.moving(slot, target, source=source):
                pass

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
