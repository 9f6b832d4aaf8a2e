"""What happened in a flash sale: collected by flash_sale.py, judged and shown here and in timeline.py.

All times are CLOCK_MONOTONIC in microseconds, the same clock in every process of the machine.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, NamedTuple, Optional

LEASE_MS = 1000
GATE_MS = 2000  # everybody who waits knows that the gate is closed after this time, on a busy machine
OVERTAKEN_MS = 1000  # by so much may who asks later be served first by a fair lock: the request takes its time, too
PASSED_OVER = 12  # turns of each process while another waits, at most; two or three are usual


@dataclass
class Turn:
    """One grant of the lock to a buyer. A buyer that was killed in it has no answer."""

    crowd: str
    buyer: int
    token: int
    left: int
    asked: int
    granted: int
    checked: int = 0  # when state was looked up, right before the release
    state: str = ""
    answer: str = ""
    conflicts: int = 0  # optimistic: granted is when the attempt that worked began, checked when it was committed


@dataclass
class Kill:
    """SIGKILL between reading and writing."""

    turn: Turn
    at: int
    code: Optional[int] = None  # how the process ended


@dataclass
class Stop:
    """SIGSTOP between reading and writing, SIGCONT past the lease."""

    turn: Turn
    at: int
    threads: set[str]  # states in /proc after SIGSTOP and before SIGCONT
    resumed: int = 0


@dataclass
class Loss:
    """What the library told a holder that lost the lock."""

    token: int
    cause: int  # in the LOST event; 0: there was none
    told: int
    release: str  # what release answered


@dataclass
class Closing:
    """The gate was closed by who sold the last item: when that was asked for, and answered."""

    crowd: str
    buyer: int
    token: int
    asked: int
    closed: int


@dataclass
class Away:
    """A buyer that was told that the gate is closed."""

    crowd: str
    buyer: int
    asked: int
    told: int


@dataclass
class Story:
    items: int
    buyers: int
    crowds: list[str]
    began: int
    variant: str = "lock"
    ended: int = 0
    turns: list[Turn] = field(default_factory=list)
    slow: Optional[Turn] = None
    kill: Optional[Kill] = None
    stop: Optional[Stop] = None
    losses: dict[int, Loss] = field(default_factory=dict)  # by token
    stats: list[dict[str, int]] = field(default_factory=list)  # of every process, the killed one's as of its last turn
    problems: list[str] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)
    away: list[Away] = field(default_factory=list)
    left: int = 0
    sales: int = 0  # optimistic: how many were counted in the stock
    refused: int = 0
    sold: list[int] = field(default_factory=list)  # buyers, as the stock has them

    def answers(self, answer: str) -> int:
        return sum(turn.answer == answer for turn in self.turns)

    def sum(self, counter: str) -> int:
        return sum(counters[counter] for counters in self.stats)

    def in_order(self) -> list[Turn]:
        """All grants by time."""
        halted = [self.kill.turn] if self.kill else []
        return sorted(self.turns + halted, key=lambda turn: turn.granted)

    def next_grant(self, after: int, not_to: str = "") -> Optional[Turn]:
        """The first grant after that time, to another process than the one given."""
        later = (turn for turn in self.in_order() if turn.granted > after and turn.crowd != not_to)
        return next(later, None)

    def turn_of(self, halted: Turn) -> Optional[Turn]:
        """How the turn of a holder that was halted ended."""
        return next((turn for turn in self.turns if turn.token == halted.token), None)

    def holds(self) -> list[tuple[int, int]]:
        """(from, to) of every time a process could trust its grant: to the last look at its state, or to its halt."""
        claims = [(turn.granted, turn.checked) for turn in self.turns if turn.state in ("HELD", "AT_RISK")]
        claims += [(halt.turn.granted, halt.at) for halt in (self.kill, self.stop) if halt]
        return sorted(claims)


# ---- the table


def seconds(microseconds: int) -> str:
    return f"{microseconds / 1e6:.2f} s"


def table(story: Story) -> list[tuple[str, str]]:
    rows = [
        ("sold", f"{len(story.sold)} of {story.items}"),
        ("told sold out", f"{story.answers('sold out')} of {story.buyers} buyers"),
    ]
    rows += optimistic_rows(story) if story.variant == "optimistic" else [*gate_rows(story), *lock_rows(story)]
    return rows + [("elapsed", seconds(story.ended - story.began))]


def optimistic_rows(story: Story) -> Iterator[tuple[str, str]]:
    conflicts = [turn.conflicts for turn in story.turns]
    yield "conflicts", f"{sum(conflicts)}, at most {max(conflicts, default=0)} for one buyer"
    yield "longest until served", seconds(max((turn.checked - turn.asked for turn in story.turns), default=0))
    if story.kill and (after := next_sale(story)):
        yield "next sale after SIGKILL", f"{(after.checked - story.kill.at) / 1000:.1f} ms"


def gate_rows(story: Story) -> Iterator[tuple[str, str]]:
    if story.closings:
        waits = [away for away in story.away if away.asked < story.closings[0].asked]
        yield "told the sale is over", f"{len(story.away)} of {story.buyers} buyers, {len(waits)} of them were waiting"
        yield "told within", f"{max(told_after(story), default=0) / 1000:.0f} ms of the gate's closing"


def lock_rows(story: Story) -> list[tuple[str, str]]:
    order = story.in_order()
    across = sum(one.crowd != other.crowd for one, other in zip(order, order[1:]))
    rows = [
        ("stale tokens refused", f"{story.refused}"),
        ("lost locks reported", f"{story.sum('lost')}"),
        ("grants of the lock", f"{story.sum('acquired')}"),
        ("in-memory hand-overs", f"{story.sum('handovers')}"),
        ("grants across processes", f"{across} ({story.sum('pushed_grants')} pushed to the next in line)"),
        ("renewals", f"{story.sum('renewed')}"),
        ("longest wait", seconds(max((turn.granted - turn.asked for turn in order), default=0))),
        ("most passed over", f"{most_passed_over(story)} grants to others in a row"),
    ]
    if story.kill and (after := story.next_grant(story.kill.at)):
        free = after.granted - story.kill.at
        rows.append(("free after SIGKILL", f"{seconds(free)} (lease {seconds(LEASE_MS * 1000)})"))
    if story.stop and story.stop.resumed and (turn := story.turn_of(story.stop.turn)):
        rows.append(("LOST after SIGCONT", f"{(turn.checked - story.stop.resumed) / 1000:.1f} ms"))
    return rows


# ---- the checks


class Check(NamedTuple):
    name: str
    holds: bool


def checks(story: Story) -> list[Check]:
    found = [*sale_checks(story)]
    if story.variant == "optimistic":
        found += [*optimistic_checks(story)]
    else:
        found += [*lock_checks(story), *kill_checks(story), *stop_checks(story)]
    found += [*fair_checks(story)] if story.variant == "fair" else []
    found += [*gate_checks(story)] if story.variant == "gate" else []
    return [Check(name, bool(holds)) for name, holds in found]


def sale_checks(story: Story) -> Iterator[tuple[str, object]]:
    bought = [turn.buyer for turn in story.turns if turn.answer == "bought"]
    answered = {turn.buyer for turn in story.turns if turn.answer in ("bought", "sold out")}
    answered |= {away.buyer for away in story.away}
    killed = {story.kill.turn.buyer} if story.kill else set()
    yield f"sold exactly {story.items}, nothing left", len(story.sold) == story.items and story.left == 0
    yield "who bought is who the stock says", sorted(bought) == sorted(story.sold) and len(set(bought)) == len(bought)
    yield "every buyer has an answer, but the killed one", answered | killed == set(range(story.buyers))
    yield "every process ended as it should", not story.problems


def most_passed_over(story: Story) -> int:
    return max(passed_over(story, crowd) for crowd in story.crowds)


def passed_over(story: Story, crowd: str) -> int:
    """The most grants to others in a row while buyers of this process waited, and it was not stopped."""
    own = [turn for turn in story.in_order() if turn.crowd == crowd]
    stopped = range(story.stop.at, story.stop.resumed) if story.stop and story.stop.turn.crowd == crowd else range(0)
    others = [turn.granted for turn in story.turns if turn.crowd != crowd and turn.granted not in stopped]
    most = since = 0
    for place, turn in enumerate(own):
        since = max(since, min(later.asked for later in own[place:]))
        most = max(most, sum(since < other < turn.granted for other in others))
        since = turn.granted
    return most


def lock_checks(story: Story) -> Iterator[tuple[str, object]]:
    order, holds = story.in_order(), story.holds()
    yield "never two holders at once", all(one[1] <= other[0] for one, other in zip(holds, holds[1:]))
    yield "tokens rise with every grant", all(one.token < other.token for one, other in zip(order, order[1:]))
    yield "the library counts as many grants as there were turns", story.sum("acquired") == len(order)
    if story.variant != "fair":  # which has an order of its own
        yield "no process was passed over for long", most_passed_over(story) <= PASSED_OVER * len(story.crowds)
    slow = story.slow and story.turn_of(story.slow)
    held = slow and slow.state == "HELD" and slow.checked - slow.granted > LEASE_MS * 1000
    yield "a slow holder kept the lock past its lease by renewal", held and story.sum("renewed") >= 2


def kill_checks(story: Story) -> Iterator[tuple[str, object]]:
    kill = story.kill
    yield "a holder was killed by SIGKILL inside", kill and kill.code == -9 and not story.turn_of(kill.turn)
    yield "after the kill another process got the lock", kill and story.next_grant(kill.at, kill.turn.crowd)


def stop_checks(story: Story) -> Iterator[tuple[str, object]]:
    stop = story.stop
    turn = stop and story.turn_of(stop.turn)
    loss = stop and story.losses.get(stop.turn.token)
    past = stop and stop.resumed - stop.turn.granted > LEASE_MS * 1000
    other = stop and story.next_grant(stop.at, stop.turn.crowd)
    yield "a holder was stopped (state T) past its lease inside", past and stop and stop.threads == {"T"}
    yield "meanwhile another process got the lock", stop and other and other.granted < stop.resumed
    yield "the stale write was refused", turn and turn.answer == "refused" and story.refused >= 1
    tokens = {turn.buyer: turn.token for turn in story.turns if turn.answer == "bought"}
    order = [tokens[buyer] for buyer in story.sold if buyer in tokens]
    yield "no write came after one with a higher token", order == sorted(order)
    yield "the first look at the state said LOST", turn and turn.state == "LOST"
    yield "a LOST event with its cause was in the queue", loss and loss.cause
    yield "the release said LOST", loss and loss.release == "LOST"


def fair_checks(story: Story) -> Iterator[tuple[str, object]]:
    yield "nobody was served before who had asked long before", not overtaken(story)


def overtaken(story: Story) -> list[Turn]:
    """Who asked long before another and had its turn after it, but for those that were stopped while they waited."""
    found, stop = [], story.stop
    for turn in story.turns:
        stopped = stop and stop.turn.crowd == turn.crowd and turn.asked <= stop.resumed and stop.at <= turn.granted
        late = turn.asked + OVERTAKEN_MS * 1000
        if not stopped and any(other.asked > late and other.granted < turn.granted for other in story.turns):
            found.append(turn)
    return found


def told_after(story: Story) -> list[int]:
    """How long each buyer waited in vain: from when the gate was closing, it asked, or its process went on."""
    resumed = {story.stop.turn.crowd: story.stop.resumed} if story.stop else {}
    closing = story.closings[0].asked if story.closings else 0
    return [away.told - max(closing, away.asked, resumed.get(away.crowd, 0)) for away in story.away]


def gate_checks(story: Story) -> Iterator[tuple[str, object]]:
    closing = story.closings[0] if len(story.closings) == 1 else None
    last = closing and next((turn for turn in story.turns if turn.token == closing.token), None)
    yield "the gate was closed once, by who sold the last item", last and last.left == 1 and last.answer == "bought"
    late = [turn for turn in story.turns if closing and turn.granted >= closing.closed]
    yield "nobody had the lock after the gate was closed", closing and not late and not story.answers("sold out")
    killed = 1 if story.kill else 0
    away = len({away.buyer for away in story.away})
    yield "everybody else was told that it is", away == len(story.away) == story.buyers - story.items - killed
    yield f"each of them within {GATE_MS / 1000:g} s", max(told_after(story), default=0) <= GATE_MS * 1000
    early = [away for away in story.away if closing and away.told < closing.asked]
    yield "nobody was told before", closing and not early


def next_sale(story: Story) -> Optional[Turn]:
    """The first sale after the kill."""
    kill = story.kill
    later = [turn for turn in story.turns if kill and turn.answer == "bought" and turn.checked > kill.at]
    return min(later, key=lambda turn: turn.checked, default=None)


def optimistic_checks(story: Story) -> Iterator[tuple[str, object]]:
    kill = story.kill
    yield f"exactly {story.items} sales were counted", story.sales == story.items
    bought = sorted(turn.left for turn in story.turns if turn.answer == "bought")
    yield "each item was sold once", bought == list(range(1, story.items + 1))
    yield "there were conflicts, and all were tried again", any(turn.conflicts for turn in story.turns)
    yield "no lock was taken", story.sum("acquired") == 0
    yield "a process was killed by SIGKILL in a transaction", kill and kill.code == -9 and not story.refused
    yield "which changed nothing", kill and kill.turn.buyer not in story.sold
    yield "and others went on selling", next_sale(story)
