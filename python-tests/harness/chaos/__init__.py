"""Engines with their faults, for a load of all kinds of locks (worker.py) whose holds are judged (judge.py).

    with WORLDS["etcd"]() as world:
        world.fault(random)                         # makes one fault, and repairs it; returns its name
        world.url, world.options                    # for dlock_client_open
"""
from __future__ import annotations

import random
import threading
from typing import Any, Callable, Sequence

from ..cluster import Cluster, ask, slot_of
from ..etcd import Etcd
from ..etcd.users import CHEAP, LOCKS, enable, forget
from ..proxy import Proxy
from ..quorum import Quorum
from ..sentinel import Watched
from ..server import Server
from ..waiting import until
from ..zookeeper import Zookeeper

LEASE = 3000
OPTIONS = {"lease_ms": LEASE, "command_timeout_ms": 700, "connects_per_second": 50}
LONG = 60  # seconds: until servers serve again
Random = random.Random


def rest(chance: Random, low: float, high: float) -> None:
    threading.Event().wait(chance.uniform(low, high))  # how long a fault lasts


class World:
    options: dict[str, Any] = OPTIONS
    kinds = "mutex,fair,read,write,semaphore,permit_semaphore,multi"
    url = ""

    def __init__(self, places: Sequence[Any] = ()) -> None:
        """places: servers with a proxy each."""
        self.proxies = [Proxy((place.host, place.port)) for place in places]

    def faults(self) -> list[Callable[[Random], None]]:
        """Each makes one and repairs it."""
        return [self.cut, self.late, self.answers_late, self.refuse] if self.proxies else []

    def fault(self, chance: Random) -> str:
        fault = chance.choice(self.faults())
        fault(chance)
        return fault.__name__

    def stop(self) -> None:
        for proxy in self.proxies:
            proxy.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def places(self) -> str:
        return ",".join(f"{proxy.host}:{proxy.port}" for proxy in self.proxies)

    # ---- faults of the network

    def cut(self, _chance: Random) -> None:
        for proxy in self.proxies:
            proxy.cut()

    def late(self, chance: Random) -> None:
        """Requests wait on their way, and arrive when the client has given them up."""
        self._hold(chance, "up")

    def answers_late(self, chance: Random) -> None:
        self._hold(chance, "down")

    def _hold(self, chance: Random, which: str) -> None:
        way = getattr(chance.choice(self.proxies), which)
        way.hold()
        rest(chance, 0.2, 1.5)
        way.release()

    def refuse(self, chance: Random) -> None:
        proxy = chance.choice(self.proxies)
        proxy.refuse()
        proxy.cut()
        rest(chance, 0.1, 1.0)
        proxy.accept()


class Single(World):
    """One server that writes each change to disk before it answers."""

    def __init__(self) -> None:
        self.server = Server("--appendonly", "yes", "--appendfsync", "always")
        super().__init__([self.server])
        self.url = self.proxies[0].url

    def faults(self) -> list[Callable[[Random], None]]:
        return [*super().faults(), self.restart, self.pause]

    def restart(self, _chance: Random) -> None:
        self.server.restart()

    def pause(self, chance: Random) -> None:
        self.server.pause()
        rest(chance, 0.1, 2.0)
        self.server.resume()

    def stop(self) -> None:
        super().stop()
        self.server.stop()


class Named(World):
    """A primary and two replicas that confirm each grant, behind one address: now and then a replica is promoted, and has the address."""

    options = {**OPTIONS, "replicas": 2}

    def __init__(self) -> None:
        self.primary = Server("--repl-diskless-sync-delay", "0")
        self.others = [Server("--repl-diskless-sync-delay", "0") for _ in range(2)]
        super().__init__([self.primary])
        self.url = self.proxies[0].url
        self._follow()

    def _follow(self) -> None:
        for other in self.others:
            other.command("REPLICAOF", self.primary.host, self.primary.port)
        until(lambda: all(b"master_link_status:up" in other.command("INFO", "replication") for other in self.others), LONG)

    def faults(self) -> list[Callable[[Random], None]]:
        return [*super().faults(), self.failover]

    def failover(self, chance: Random) -> None:
        proxy, new = self.proxies[0], chance.choice(self.others)
        proxy.refuse()
        proxy.cut()
        new.command("REPLICAOF", "NO", "ONE")
        self.others = [one for one in (self.primary, *self.others) if one is not new]
        self.primary, proxy.target = new, (new.host, new.port)
        self._follow()
        proxy.accept()

    def stop(self) -> None:
        super().stop()
        for server in (self.primary, *self.others):
            server.stop()


class Sentinels(World):
    options = {**OPTIONS, "replicas": "all"}

    def __init__(self) -> None:
        super().__init__()
        self.watched = Watched(replicas=2, sentinels=3)
        self.url = self.watched.url

    def faults(self) -> list[Callable[[Random], None]]:
        return [self.failover, self.kill, self.pause, self.cut]

    def failover(self, _chance: Random) -> None:
        self.watched.failover()

    def kill(self, _chance: Random) -> None:
        """It starts again, empty, when another one is the primary."""
        before, port = self.watched.primary(), self.watched.port()
        before.kill()
        Watched.until(lambda: self.watched.port() != port, LONG)
        before.start()
        Watched.until(self.watched.settled, LONG)

    def pause(self, chance: Random) -> None:
        before = self.watched.primary()
        before.pause()
        rest(chance, 0.2, 3.0)
        before.resume()
        Watched.until(self.watched.settled, LONG)

    def cut(self, _chance: Random) -> None:
        ask(self.watched.primary(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def stop(self) -> None:
        super().stop()
        for server in (*self.watched.servers, *self.watched.sentinels):
            server.stop()


class Slots(World):
    """A cluster whose slots move while their locks are in use."""

    kinds = "mutex,fair,read,write,semaphore,permit_semaphore"

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(3, 0, 5000)
        self.url = self.cluster.url

    def faults(self) -> list[Callable[[Random], None]]:
        return [self.move, self.cut, self.pause]

    def move(self, chance: Random) -> None:
        slot = slot_of(chance.choice(["m1", "m", "f1", "f", "r1", "r", "s1", "s", "p1", "p"]))
        source = self.cluster.owner(slot)
        self.cluster.migrate(slot, chance.choice([node for node in self.cluster.primaries() if node is not source]))

    def cut(self, chance: Random) -> None:
        ask(chance.choice(self.cluster.nodes), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def pause(self, chance: Random) -> None:
        node = chance.choice(self.cluster.nodes)
        node.pause()
        rest(chance, 0.1, 1.5)
        node.resume()

    def stop(self) -> None:
        super().stop()
        self.cluster.stop()


class Voters(World):
    """Four of five servers must agree, so two may lose their memory within a lease."""

    options = {**OPTIONS, "quorum": 4}
    kinds = "mutex"

    def __init__(self) -> None:
        super().__init__()
        self.quorum = Quorum()
        self.url = self.quorum.url

    def faults(self) -> list[Callable[[Random], None]]:
        return [self.lose_memory, self.pause]

    def lose_memory(self, chance: Random) -> None:
        node = chance.choice(self.quorum.nodes)
        node.kill()
        node.start()
        rest(chance, LEASE / 1000, LEASE / 1000 + 1)

    def pause(self, chance: Random) -> None:
        node = chance.choice(self.quorum.nodes)
        node.pause()
        rest(chance, 0.1, 2.0)
        node.resume()

    def stop(self) -> None:
        super().stop()
        self.quorum.stop()


class Members(World):
    """Three members behind a proxy each; the leader is killed, or stopped."""

    servers: Any
    longest_stop = 5.0  # seconds

    def faults(self) -> list[Callable[[Random], None]]:
        return [*super().faults(), self.kill_the_leader, self.stop_the_leader]

    def up(self) -> bool:
        return bool(self.servers.is_up(LONG))

    def start(self, member: Any) -> None:
        member.start()

    def kill_the_leader(self, chance: Random) -> None:
        leader = self.servers.leader()
        leader.kill()
        rest(chance, 0.1, 2.0)
        self.start(leader)
        assert self.up()

    def stop_the_leader(self, chance: Random) -> None:
        leader = self.servers.leader()
        leader.pause()
        rest(chance, 0.5, self.longest_stop)
        leader.resume()
        assert self.up()

    def stop(self) -> None:
        super().stop()
        self.servers.stop()


class EtcdMembers(Members):
    longest_stop = 2.0  # a leader that goes on after its leases have ended revokes those that others have extended: docs/servers.md

    def __init__(self) -> None:
        self.servers = Etcd(3)
        super().__init__(self.servers.nodes)
        self.url = f"etcd://{self.places()}"


class ZookeeperMembers(Members):
    def __init__(self) -> None:
        self.servers = Zookeeper(3)
        super().__init__(self.servers.members)
        self.url = f"zookeeper://{self.places()}"

    def start(self, member: Any) -> None:
        member.start(self.servers.members)


class EtcdUsers(World):
    """One member that forgets its tokens."""

    options = {**OPTIONS, **LOCKS}

    def __init__(self) -> None:
        self.etcd = Etcd(*CHEAP)
        super().__init__(self.etcd.nodes)
        self.url = f"etcd://{self.places()}"
        enable(self.etcd, a="~")

    def faults(self) -> list[Callable[[Random], None]]:
        return [*super().faults(), self.forget]

    def forget(self, _chance: Random) -> None:
        forget(self.etcd)

    def stop(self) -> None:
        super().stop()
        self.etcd.stop()


WORLDS: dict[str, Callable[[], World]] = {
    "single": Single, "named": Named, "sentinel": Sentinels, "cluster": Slots, "quorum": Voters, "etcd": EtcdMembers, "etcd-users": EtcdUsers,
    "zookeeper": ZookeeperMembers,
}  # fmt: skip
