"""The picture of a benchmark run: per case a group of bars, libdlock first, then the other ways."""
from __future__ import annotations

import pathlib
from typing import Any, Callable, Mapping, Optional, Sequence

from report import Bars, Section, Spread, number

OURS, THEIRS, LESS = "#2a7f4f", "#9aa5b1", "#b3402e"


def bars(case: str, names: Mapping[str, str], results: Mapping[str, Sequence[dict[str, float]]], rate: Callable[[dict[str, float]], float],
         ours: Sequence[str] = ("dlock",)) -> Bars:
    """The group of a case. names has the ways that are drawn; each of ours is compared with the best of the others in its round."""
    rates = {way: [rate(result) for result in results[way]] for way in names if way in results}
    best = [max(others) for others in zip(*(rates[way] for way in rates if way not in ours))]
    ways: list[tuple[str, Spread, Optional[Spread]]] = []
    for way, values in rates.items():
        ratios = [a / b for a, b in zip(values, best) if b] if way in ours else []
        ways.append((names[way], Spread.of(values), Spread.of(ratios) if ratios else None))
    return Bars(case, ways, len(rates) - len(ours))


def group(axes: Any, top: float, one: Bars) -> list[tuple[float, str]]:
    """Draw one group from top downwards. Returns the labels of its rows, with their places."""
    labels = [(top, one.case)]
    for place, (name, rate, ratio) in enumerate(one.ways, 1):
        axes.barh(top + place, rate.median, color=OURS if name.startswith("libdlock") else THEIRS, height=0.75)
        text, colour = f" {number(rate.median)}", "black"
        if ratio:
            text += f" · {number(ratio.median)}x" + (" the best other" if one.others > 1 else "")
            colour = OURS if ratio.median >= 1 else LESS
        where = {} if rate.median else {"transform": axes.get_yaxis_transform()}  # a logarithmic axis has no 0: at its left end
        axes.text(rate.median, top + place, text, va="center", ha="left", color=colour, weight="bold" if ratio else "normal", **where)
        labels.append((top + place, name.replace("`", "")))
    return labels


def draw(sections: Sequence[Section], path: pathlib.Path) -> None:
    """Draw the bars of the sections, if there are any."""
    every = [one for section in sections for one in section.bars]
    if not every:
        return
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dlock", "font.size": 9})
    from matplotlib import pyplot

    rows = sum(len(one.ways) + 1.6 for one in every)
    figure, axes = pyplot.subplots(figsize=(9, 0.6 + 0.19 * rows), layout="constrained")
    labels, top = [], 0.0
    for one in every:
        labels += group(axes, top, one)
        top += len(one.ways) + 1.6
    rates = [rate.median for one in every for _, rate, _ in one.ways if rate.median > 0]
    axes.set_xscale("log")
    axes.set_xlim(min(rates) / 2, max(rates) * 100)
    axes.set_ylim(top, -1)
    axes.set_yticks([place for place, _ in labels], [label for _, label in labels])
    for tick, label in zip(axes.get_yticklabels(), labels):
        tick.set_weight("bold" if label[1] in {one.case for one in every} else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("per second, logarithmic: longer is better; with x: libdlock's rate relative to the other way")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    lines = [line.rstrip() for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines).rstrip("\n") + "\n")
