"""Who held the lock when: as lines for a terminal and as an SVG."""
from __future__ import annotations

import math
from typing import Callable, Iterator, NamedTuple, Optional
from xml.sax.saxutils import escape

from story import Story, Turn

COLUMNS = 72
ZOOM = 60_000  # microseconds in the second part of the SVG


class Span(NamedTuple):
    """A time in the row of one process."""

    crowd: str
    start: int
    end: int
    kind: str  # bought, sold out, slow, halted; dead, stopped: the server still has it as the holder
    note: str


def spans(story: Story) -> list[Span]:
    halted = {halt.turn.token for halt in (story.kill, story.stop) if halt}
    turns = [turn_span(story, turn) for turn in story.turns if turn.token not in halted]
    return sorted([*turns, *halts(story)], key=lambda span: span.start)


def turn_span(story: Story, turn: Turn) -> Span:
    slow = story.slow and turn.token == story.slow.token
    note = f"buyer {turn.buyer}, token {turn.token}, {turn.left} left: {turn.answer}"
    return Span(turn.crowd, turn.granted, turn.checked, "slow" if slow else turn.answer, note)


def halts(story: Story) -> Iterator[Span]:
    if story.kill:
        turn, at = story.kill.turn, story.kill.at
        after = story.next_grant(at)
        free = after.granted if after else story.ended
        yield Span(turn.crowd, turn.granted, at, "halted", f"buyer {turn.buyer}, token {turn.token}, killed")
        if story.variant != "optimistic":  # where it keeps nothing from anybody
            yield Span(turn.crowd, at, free, "dead", "killed; the lock ends with its lease")
    if story.stop:
        turn, at = story.stop.turn, story.stop.at
        yield Span(turn.crowd, turn.granted, at, "halted", f"buyer {turn.buyer}, token {turn.token}, stopped")
        resumed = story.stop.resumed or story.ended
        yield Span(turn.crowd, at, resumed, "stopped", "stopped; the lock ends with its lease")


def stock_steps(story: Story) -> list[tuple[int, int]]:
    """(time, items left from then on)."""
    writes = [(turn.checked, turn.left - 1) for turn in story.turns if turn.answer == "bought"]
    return [(story.began, story.items), *sorted(writes)]


# ---- the terminal

BLOCKS, DEAD, STOPPED = " ▁▂▃▄▅▆▇█", "·", "░"
PLAIN_BLOCKS, PLAIN_STOPPED = " .:-=+*#@", "~"


def text(story: Story, encoding: Optional[str]) -> list[str]:
    """A row for each process: how much of the time it had the lock. Plain ASCII where the terminal knows no more."""
    try:
        (BLOCKS + DEAD + STOPPED).encode(encoding or "ascii")
        blocks, dead, stopped = BLOCKS, DEAD, STOPPED
    except UnicodeEncodeError:
        blocks, dead, stopped = PLAIN_BLOCKS, "x", PLAIN_STOPPED
    rows = [("stock", stock_row(story, blocks))]
    rows += [(crowd, crowd_row(story, crowd, blocks, {"dead": dead, "stopped": stopped})) for crowd in story.crowds]
    total = (story.ended - story.began) / 1e6
    axis = "0" + f"{total:.1f} s".rjust(COLUMNS - 1)
    held = "was in a transaction" if story.variant == "optimistic" else "held the lock"
    legend = f"{blocks[1]} to {blocks[-1]} {held}   {dead} killed with it   {stopped} stopped with it"
    return ["", *(f"  {name:>9} |{row}|" for name, row in rows), f"  {'':>9}  {axis}", f"  {'':>9}  {legend}"]


def column_of(story: Story, at: int) -> float:
    return (at - story.began) / max(1, story.ended - story.began) * COLUMNS


def stock_row(story: Story, blocks: str) -> str:
    steps, row = stock_steps(story), ""
    for column in range(COLUMNS):
        left = [left for at, left in steps if column_of(story, at) < column + 1][-1]
        row += blocks[math.ceil(left / story.items * (len(blocks) - 1))]
    return row


def crowd_row(story: Story, crowd: str, blocks: str, marks: dict[str, str]) -> str:
    shares, row = [0.0] * COLUMNS, [" "] * COLUMNS
    own = [span for span in spans(story) if span.crowd == crowd]
    for span in own:
        start, end = column_of(story, span.start), min(column_of(story, span.end), COLUMNS)
        for column in range(int(start), min(math.ceil(end), COLUMNS)):
            if span.kind in marks:
                row[column] = marks[span.kind]
            else:
                shares[column] += min(end, column + 1) - max(start, column)
    for column, share in enumerate(shares):
        if share > 0 and row[column] == " ":
            row[column] = blocks[math.ceil(math.sqrt(min(share, 1)) * (len(blocks) - 1))]
    return "".join(row)


# ---- the SVG

WIDTH, LEFT, RIGHT = 1120, 84, 1096
ROW, BAR = 24, 16
LEGEND = [("bought", "bought"), ("sold out", "told sold out"), ("halted", "SIGKILL, SIGSTOP"),
          ("dead", "killed, until the lease ends"), ("stopped", "stopped, past its lease")]  # fmt: skip


class Look(NamedTuple):
    """The colours of a picture."""

    back: str
    text: str
    small: str
    grid: str
    lane: str
    way: str
    stock: str  # the area under the curve
    bought: str
    sold_out: str
    halted: str
    stopped: str

    def fill(self, kind: str) -> str:
        names = {"slow": "bought", "sold out": "sold_out", "refused": "halted"}
        return f"url(#{kind})" if kind in ("dead", "stopped") else str(getattr(self, names.get(kind, kind)))

    def style(self) -> str:
        return f"""
  text {{ font: 12px system-ui, "DejaVu Sans", sans-serif; fill: {self.text}; }}
  .title {{ font-size: 19px; font-weight: 600; }} .part {{ font-weight: 600; }}
  .small {{ font-size: 10.5px; fill: {self.small}; }} .note, .halo {{ font-size: 11px; font-weight: 600; }}
  .halo {{ stroke: {self.back}; stroke-width: 3.5; stroke-linejoin: round; }}
  .grid {{ stroke: {self.grid}; }} .lane {{ fill: {self.lane}; }} .way {{ fill: none; stroke: {self.way}; }}
  .stock {{ fill: {self.stock}; stroke: {self.bought}; stroke-width: 1.5; }}
  .inner {{ font-size: 10.5px; font-weight: 600; fill: #fff; text-anchor: middle; }}
"""

    def patterns(self) -> str:
        return "".join(
            f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<rect width="6" height="6" fill="{colour}" opacity=".18"/>'
            f'<rect width="2" height="6" fill="{colour}"/></pattern>'
            for name, colour in (("dead", self.halted), ("stopped", self.stopped))
        )


LOOKS = {
    "light": Look("#fff", "#334", "#667", "#e3e7ee", "#f5f7fa", "#8a94a6", "#d5efe2",
                  "#1b9e63", "#8fb3dc", "#c8324b", "#e08e1b"),
    "dark": Look("#0d1117", "#d6dde6", "#98a2b0", "#262d38", "#161b23", "#76808f", "#123526",
                 "#2a9d68", "#4673a8", "#dd4a62", "#d9922e"),
}  # fmt: skip


class Part:
    """A part of the picture: a row for each process, from one time to another."""

    def __init__(self, story: Story, look: Look, top: int, start: int, end: int) -> None:
        self.story, self.look, self.top, self.start, self.end = story, look, top, start, end
        self.bottom = top + ROW * len(story.crowds)

    def x(self, at: int) -> float:
        inside = min(max(at, self.start), self.end)
        return LEFT + (inside - self.start) / (self.end - self.start) * (RIGHT - LEFT)

    def y(self, crowd: str) -> int:
        return self.top + ROW * self.story.crowds.index(crowd)

    def lanes(self) -> Iterator[str]:
        for crowd in self.story.crowds:
            y = self.y(crowd)
            yield f'<rect class="lane" x="{LEFT}" y="{y + 2}" width="{RIGHT - LEFT}" height="{ROW - 4}" rx="3"/>'
            yield f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(crowd)}</text>'
        yield from self.axis()

    def bars(self) -> Iterator[str]:
        seen = [span for span in spans(self.story) if span.end > self.start and span.start < self.end]
        for span in sorted(seen, key=lambda span: span.kind == "halted"):
            yield self.bar(span)

    def plain_bars(self) -> Iterator[str]:
        """The same without what stands in a bar's title: one path for all bars of a kind, a tenth of the bytes."""
        paths: dict[str, str] = {}
        for span in spans(self.story):
            if span.end > self.start and span.start < self.end:
                x, y = self.x(span.start), self.y(span.crowd) + (ROW - BAR) // 2
                width = max(self.x(span.end) - x, 3 if span.kind == "halted" else 0.6)
                paths[span.kind] = paths.get(span.kind, "") + f"M{x:.1f},{y}h{width:.1f}v{BAR}h-{width:.1f}z"
        for kind in sorted(paths, key=lambda kind: kind == "halted"):
            yield f'<path fill="{self.look.fill(kind)}" d="{paths[kind]}"/>'

    def bar(self, span: Span) -> str:
        x, fill = self.x(span.start), self.look.fill(span.kind)
        width = max(self.x(span.end) - x, 3 if span.kind == "halted" else 0.6)
        return (
            f'<rect x="{x:.2f}" y="{self.y(span.crowd) + (ROW - BAR) // 2}" width="{width:.2f}" height="{BAR}" '
            f'fill="{fill}"><title>{escape(span.note)}</title></rect>'
        )

    def axis(self) -> Iterator[str]:
        step = nice_step((self.end - self.start) / 8)
        unit, name = (1e6, "s") if step >= 100_000 else (1e3, "ms")
        for count in range(int((self.end - self.start) / step) + 1):
            x, label = self.x(self.start + int(count * step)), f"{count * step / unit:g} {name}"
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{self.bottom + 4}"/>'
            yield f'<text class="small" x="{x:.1f}" y="{self.bottom + 17}" text-anchor="middle">{label}</text>'


def nice_step(wanted: float) -> float:
    """1, 2 or 5 times a power of ten, not less than wanted."""
    power = 10 ** math.floor(math.log10(max(wanted, 1)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= wanted)


def stock_curve(story: Story, x: Callable[[int], float], top: int, height: int) -> Iterator[str]:
    bottom = top + height
    most = max(left for _, left in stock_steps(story))
    path, y = f"M{x(story.began):.1f},{bottom}", float(top)
    for at, left in stock_steps(story):
        path += f" L{x(at):.1f},{y:.1f}"
        y = bottom - left / most * height
        path += f" L{x(at):.1f},{y:.1f}"
    yield f'<path class="stock" d="{path} L{x(story.ended):.1f},{y:.1f} L{x(story.ended):.1f},{bottom} Z"/>'
    yield f'<text x="{LEFT - 10}" y="{top + 10}" text-anchor="end">{most}</text>'
    yield f'<text x="{LEFT - 10}" y="{bottom}" text-anchor="end">0</text>'


def notes(story: Story, part: Part) -> Iterator[str]:
    """What happened to the halted holders, beside their bars."""
    found = []
    if story.slow:
        found.append((story.slow.crowd, story.slow.granted, "slow: renewed past its lease"))
    if story.kill:
        told = "SIGKILL" if story.variant == "optimistic" else "SIGKILL: free when the lease ends"
        found.append((story.kill.turn.crowd, story.kill.at, told))
    if story.stop:
        found.append((story.stop.turn.crowd, story.stop.at, "SIGSTOP"))
        turn = story.turn_of(story.stop.turn)
        if turn and story.stop.resumed:
            told = f"SIGCONT: {turn.state}, stale write {'refused' if turn.answer == 'refused' else 'ACCEPTED'}"
            found.append((turn.crowd, story.stop.resumed, told))
    for closing in story.closings:
        found.append((closing.crowd, closing.asked, f"gate closed: {len(story.away)} told that the sale is over"))
    for crowd, at, words in found:
        for style in ("halo", "note"):
            yield f'<text class="{style}" x="{part.x(at) + 6:.1f}" y="{part.y(crowd) + 16}">{escape(words)}</text>'


def turns_inside(part: Part) -> list[Turn]:
    order = part.story.in_order()
    return [turn for turn in order if part.start <= turn.granted and turn.granted < turn.checked <= part.end]


def way(part: Part) -> str:
    """The lock's way from process to process."""
    points = []
    for turn in turns_inside(part):
        y = part.y(turn.crowd) + ROW // 2
        points += [f"{part.x(turn.granted):.1f},{y}", f"{part.x(turn.checked):.1f},{y}"]
    return f'<polyline class="way" points="{" ".join(points)}"/>'


def found_left(part: Part) -> Iterator[str]:
    """In the bar of each sale, what the buyer found left."""
    for turn in turns_inside(part):
        if turn.answer == "bought":
            middle = (part.x(turn.granted) + part.x(turn.checked)) / 2
            yield f'<text class="inner" x="{middle:.1f}" y="{part.y(turn.crowd) + 16}">{turn.left}</text>'


def legend(look: Look, y: int) -> Iterator[str]:
    x = LEFT
    for kind, words in LEGEND:
        yield f'<rect x="{x}" y="{y - 10}" width="14" height="12" rx="2" fill="{look.fill(kind)}"/>'
        yield f'<text x="{x + 20}" y="{y}">{words}</text>'
        x += 44 + 7 * len(words)


LOCKED = {"part": "who held the lock", "closer": "the end of the stopped holder's lease",
          "rows": "; side by side in one row: handed over in memory; from row to row: granted across processes"}
WORDS = {
    "lock": {"how": "one lock", **LOCKED},
    "fair": {"how": "one fair lock", **LOCKED, "rows": "; from bar to bar: granted to the next in line"},
    "gate": {"how": "one lock with a gate", **LOCKED},
    "optimistic": {"how": "no lock", "part": "who was in a transaction", "closer": "the start", "rows": ""},
}  # fmt: skip


def svg(story: Story, look: Look = LOOKS["light"], plain: bool = False) -> str:
    """The picture; plain: without titles of its bars, for a page that does not show them."""
    words = WORDS[story.variant]
    whole = Part(story, look, 190, story.began, story.ended)
    after = story.next_grant(story.stop.at) if story.stop else None
    start = (after.granted if after else story.began) - ZOOM // 20
    zoom = Part(story, look, whole.bottom + 76, start, start + ZOOM)
    height = zoom.bottom + 64
    title = f"Flash sale: {story.items} items, {story.buyers:,} buyers, {len(story.crowds)} processes, {words['how']}"
    closer = f"{ZOOM // 1000} ms of it, from {words['closer']}"
    body = [
        f'<text class="title" x="{LEFT}" y="36">{escape(title)}</text>',
        f'<text class="small" x="{LEFT}" y="56">{escape(summary(story))}</text>',
        f'<text class="part" x="{LEFT}" y="86">items left</text>',
        *stock_curve(story, whole.x, 96, 60),
        f'<text class="part" x="{LEFT}" y="{whole.top - 10}">{words["part"]}</text>',
        *whole.lanes(), *(whole.plain_bars() if plain else whole.bars()), *notes(story, whole),
        f'<text class="part" x="{LEFT}" y="{zoom.top - 26}">{escape(closer)}</text>',
        f'<text class="small" x="{LEFT}" y="{zoom.top - 10}">numbers: what the buyer found left'
        f"{words['rows']}</text>",
        *zoom.lanes(), "" if story.variant == "optimistic" else way(zoom),
        *(zoom.plain_bars() if plain else zoom.bars()), *found_left(zoom), *legend(look, height - 14),
    ]  # fmt: skip
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{look.style()}</style>\n<defs>{look.patterns()}</defs>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="{look.back}"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def summary(story: Story) -> str:
    if story.variant == "optimistic":
        conflicts = sum(turn.conflicts for turn in story.turns)
        return f"{len(story.sold)} sold, {story.answers('sold out')} told sold out, {conflicts} conflicts"
    return (
        f"{len(story.sold)} sold, {story.answers('sold out')} told sold out, {story.refused} stale write refused, "
        f"{story.sum('lost')} lost lock reported; {story.sum('acquired')} grants, {story.sum('handovers')} handed over "
        f"in memory, {story.sum('pushed_grants')} pushed to the next process, {story.sum('renewed')} renewals"
    )
