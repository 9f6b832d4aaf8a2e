"""The state of a read-write lock after each step: our steps follow the contracts of our scripts, Redisson's its description.

No time passes here: leases are numbers, and kill() and expire() end them.
"""
from __future__ import annotations

from .redisson_rw import WATCHDOG

REST = ":rest"
ALL = [b"1", b"00"]  # our message when everybody may try again


class RwModel:
    def __init__(self) -> None:
        self.mode: str | None = None
        self.counts: dict[str, int] = {}  # the fields except the mode
        self.holds: dict[tuple[str, int], int] = {}  # the hold keys: the lease of each
        self.ttl = 0
        self.ours: dict[str, int] = {}  # our own holders beside the hash: the lease of each
        self.gate = False
        self.said: list[bytes] = []

    # ---- reading the state

    def longest(self) -> int:
        numbers = ((owner, number) for owner, count in self.counts.items() for number in range(1, count + 1))
        return max((self.holds.get(one, 0) for one in numbers), default=0)

    def lives(self, owner: str) -> bool:
        """Whether owner is alive: the writer by the lock, readers by their hold keys."""
        if owner not in self.counts:
            return False
        if owner.endswith(":write"):
            return True
        return any((owner, number) in self.holds for number in range(1, self.counts[owner] + 1))

    def living(self) -> set[str]:
        return {owner for owner in self.counts if self.lives(owner)}

    def resting(self) -> str | None:
        found = [owner for owner in self.counts if owner.endswith(":write" + REST)]
        return found[0] if found and self.mode == "write" else None

    # ---- common to both

    def _free(self, *messages: bytes) -> None:
        self.mode, self.counts, self.ttl = None, {}, 0
        self.said += messages

    def kill(self, owner: str, number: int) -> None:
        del self.holds[owner, number]
        self.ours.pop(owner, None)

    def cut(self) -> None:
        self._free()

    def expire(self) -> None:
        self._free()
        self.ours = {}

    # ---- our steps

    def _sweep(self) -> None:
        """Removes dead readers. There are few fields here, so all are checked."""
        self.counts = {owner: count for owner, count in self.counts.items() if self.lives(owner) or ":write" in owner}

    def _settle(self) -> None:
        one = self.resting()
        if one and (one, 1) not in self.holds:
            del self.counts[one]
            self.mode = "read"
            self.said += ALL

    def _rest(self, owner: str, rest: int) -> None:
        self.counts[owner + REST] = 1
        self.holds[owner + REST, 1] = rest
        self._note(owner + REST, rest)
        self.ttl = max(self.ttl, rest)
        self.said += ALL

    def _note(self, owner: str, lease: int) -> None:
        self.ours[owner] = max(self.ours.get(owner, 0), lease)

    def kept_out(self, *mine: str, reads: bool = False) -> int:
        """The longest lease of our other holders, 0 when there is none. A reader asks for writers only."""
        return max((lease for one, lease in self.ours.items() if one not in mine and (":write" in one or not reads)), default=0)

    def read(self, owner: str, lease: int, under: str = "") -> str:
        self._settle()
        if self.lives(owner):
            self.holds[owner, 1] = max(self.holds[owner, 1], lease)
            self.ttl = max(self.ttl, lease)
            self._note(owner, lease)
            return "again"
        if self.gate:
            return "gate"
        if self.mode == "write" and under not in self.counts:
            return "busy"
        if self.mode != "write" and self.kept_out(owner, under, reads=True):
            return "kept out"
        self._note(owner, lease)
        self.mode = self.mode or "read"
        self.counts[owner] = 1
        self.holds[owner, 1] = lease
        self.ttl = max(self.ttl, lease)
        return "new"

    def write(self, owner: str, lease: int) -> str:
        self._settle()
        if owner in self.counts:
            self.ttl = max(self.ttl, lease)
            self._note(owner, lease)
            return "again"
        if self.gate:
            return "gate"
        if self.mode == "write":
            return "busy"
        if self.longest() > 0:
            self._sweep()
            return "busy"
        if self.kept_out(owner):
            return "kept out"
        self.ours = {owner: lease}
        self.mode, self.counts, self.ttl = "write", {owner: 1}, lease
        return "new"

    def read_release(self, owner: str, rest: int) -> int:
        held = self.holds.pop((owner, 1), 0)
        if self.ours.pop(owner, 0) and not self.mode:
            self.said.append(b"0")
        if owner not in self.counts:
            return 0
        del self.counts[owner]
        if held and rest:
            self._rest(owner, rest)
        self._settle()
        if self.mode == "read" or self.resting():
            self._sweep()
            self.ttl = self.longest()
            if not self.ttl:
                self._free(b"0")
        return 1 if held else 0

    def write_release(self, owner: str, rest: int) -> int:
        noted = self.ours.pop(owner, 0)
        if self.mode != "write" or owner not in self.counts:
            self.said += ALL if noted else []
            return 0
        del self.counts[owner]
        if rest:
            self._rest(owner, rest)
        self._sweep()
        if rest:
            self.ttl = self.longest()
            return 1
        self.ttl = self.longest()
        if self.ttl:
            self.mode = "read"
            self.said += ALL
        else:
            self._free(*ALL)
        return 1

    def read_renew(self, owner: str, lease: int) -> int:
        if not self.lives(owner):
            return 0
        self.holds[owner, 1] = max(self.holds[owner, 1], lease)
        self.ttl = max(self.ttl, lease)
        self._note(owner, lease)
        return 1

    def write_renew(self, owner: str, lease: int) -> int:
        if owner not in self.counts:
            return 0
        self.ttl = max(self.ttl, lease)
        self._note(owner, lease)
        return 1

    def force(self) -> int:
        if not self.mode and not self.ours:
            return 0
        self._free(*ALL)
        self.ours = {}
        return 1

    # ---- Redisson's steps

    def java_read(self, owner: str, lease: int) -> bool:
        if self.mode == "write" and owner + ":write" not in self.counts:
            return False
        self.mode = self.mode or "read"
        self.counts[owner] = self.counts.get(owner, 0) + 1
        self.holds[owner, self.counts[owner]] = lease
        self.ttl = max(self.ttl, lease)
        return True

    def java_write(self, owner: str, lease: int) -> bool:
        writer = owner + ":write"
        if self.mode and writer not in self.counts:
            return False
        self.mode = "write"
        self.counts[writer] = self.counts.get(writer, 0) + 1
        self.ttl += lease
        return True

    def java_read_release(self, owner: str) -> int | None:
        if not self.mode:
            self.said.append(b"0")
            return None
        if owner not in self.counts:
            return None
        self.holds.pop((owner, self.counts[owner]), None)
        self.counts[owner] -= 1
        if not self.counts[owner]:
            del self.counts[owner]
        if self.counts and (self.longest() or self.mode == "write"):
            self.ttl = self.longest() or self.ttl
            return 0
        self._free(b"0")
        return 1

    def java_write_release(self, owner: str) -> int | None:
        writer = owner + ":write"
        if not self.mode:
            self.said.append(b"1")
            return None
        if self.mode != "write" or writer not in self.counts:
            return None
        self.counts[writer] -= 1
        if self.counts[writer]:
            self.ttl = WATCHDOG
            return 0
        del self.counts[writer]
        if self.counts:
            self.mode = "read"
        else:
            self._free(b"1")
        return 1

    def java_read_renew(self, owner: str) -> int:
        if owner not in self.counts:
            return 0
        for number in range(1, self.counts[owner] + 1):
            if (owner, number) in self.holds:
                self.holds[owner, number] = WATCHDOG
        self.ttl = WATCHDOG
        return 1

    def java_write_renew(self, owner: str) -> int:
        if owner + ":write" not in self.counts:
            return 0
        self.ttl = WATCHDOG
        return 1

    def java_force(self, mode: str) -> int:
        if self.mode != mode:
            return 0
        self._free(b"0" if mode == "read" else b"1")
        return 1
