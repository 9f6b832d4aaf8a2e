"""What may not be in a list of holds: two at a time, more permits than there are, a token that falls.

    findings(holds, seats=3)                        # a sentence for each
"""
from __future__ import annotations

import collections
import heapq
from typing import Iterable, Iterator, NamedTuple


class Hold(NamedTuple):
    name: str
    mode: str  # alone, read, seats
    who: str  # holds of one owner may overlap
    permits: int
    token: int  # 0: not compared
    adopted: bool  # has the token of the hold that was exported
    began: int
    ended: int

    def __str__(self) -> str:
        return f"{self.who} with token {self.token} from {self.began} to {self.ended}"


def read(line: str) -> Hold:
    name, mode, who, permits, token, adopted, began, ended = line.split()[1:]
    return Hold(name, mode, who, int(permits), int(token), adopted == "1", int(began), int(ended))


def findings(holds: Iterable[Hold], seats: int) -> list[str]:
    names: dict[str, list[Hold]] = collections.defaultdict(list)
    for hold in holds:
        names[hold.name].append(hold)
    found = []
    for name, some in names.items():
        some.sort(key=lambda hold: hold.began)
        found += [f"{name}: {what}" for what in (*overlaps(some, seats), *falls(some))]
    return found


def overlaps(holds: list[Hold], seats: int) -> Iterator[str]:
    """Of one name, in order of began."""
    active: list[tuple[int, int, Hold]] = []
    for number, hold in enumerate(holds):
        if hold.ended <= hold.began:
            continue  # a moment
        while active and active[0][0] <= hold.began:
            heapq.heappop(active)
        others = [other for _, _, other in active if other.who != hold.who]
        for other in others:
            if "alone" in (hold.mode, other.mode):
                yield f"both hold it: {other}, {hold}"
        if hold.mode == "seats" and (taken := sum(other.permits for _, _, other in active) + hold.permits) > seats:
            yield f"{taken} permits are out at {hold.began}"
        heapq.heappush(active, (hold.ended, number, hold))


def falls(holds: list[Hold]) -> Iterator[str]:
    """The token of a hold is higher than those of all that ended before it began, if one of the two was alone."""
    waiting: list[tuple[int, int, Hold]] = []
    last: dict[str, Hold] = {}  # for each mode: of those that have ended, the one with the highest token
    for number, hold in enumerate(holds):
        if not hold.token:
            continue
        while waiting and waiting[0][0] <= hold.began:
            ended = heapq.heappop(waiting)[2]
            if ended.mode not in last or ended.token > last[ended.mode].token:
                last[ended.mode] = ended
        for before in last.values():
            if "alone" not in (before.mode, hold.mode):
                continue
            same = hold.adopted or before.who == hold.who
            if hold.token < before.token or (hold.token == before.token and not same):
                yield f"a token falls: {before}, then {hold}"
        heapq.heappush(waiting, (max(hold.began, hold.ended), number, hold))
