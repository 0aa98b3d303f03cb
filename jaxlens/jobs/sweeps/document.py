"""The view of a sweep: sentences, memory along an axis of numbers as a chart, and the points."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from jaxlens.jobs.sweeps.facts import Series, SweepFacts, series
from jaxlens.jobs.sweeps.report import report
from jaxlens.render import chart
from jaxlens.render.document import Block, Document, Findings, Picture, TableBlock
from jaxlens.render.graph.text_width import columns, shorten
from jaxlens.render.text.lines import wrap
from jaxlens.report import amount, count

_WIDTH, _LEFT, _RIGHT, _TOP, _HIGH = 760.0, 74.0, 150.0, 34.0, 240.0
_LINES = 6  # series of one chart
_BESIDE = 16  # columns of a name that stands beside its line; a longer one stands below all
_TAKES = attrgetter("takes")  # what is compared with a limit
_NOTE = "What programs reserve from start to end; the lines join the points that were compiled."


def document(facts: SweepFacts, asked: bool = False) -> Document:
    """Returns the document of a sweep.

    Args:
        facts: The points.
        asked: Whether the user named the figures: the text then has the times too.
    """
    answer = report(facts)
    blocks: list[Block] = [Findings(answer.findings)] if answer.findings else []
    blocks += pictures(facts)
    blocks += [TableBlock(table, asked=asked) for table in answer.tables]
    return Document("sweep", title(facts), tuple(blocks))


def title(facts: SweepFacts) -> str:
    """Returns the first line of a sweep."""
    over = " x ".join(f"{len(axis.labels)} of {axis.name}" for axis in facts.axes)
    return f"sweep of {facts.name}: {count(len(facts.rows), 'point')} ({over})"


def pictures(facts: SweepFacts) -> Iterator[Picture]:
    """Yields a chart of the memory along each axis of numbers."""
    for at in facts.numbered:
        axis, lines = facts.axes[at], list(series(facts, at))
        known = [line for line in lines if len(line.values(_TAKES)[0]) > 1]
        if known:
            shown = known[:_LINES]
            left = (
                f" Not drawn: {len(known) - len(shown)} more lines." if len(known) > _LINES else ""
            )
            title = f"Memory by {axis.quantity}"
            yield Picture(
                title,
                f"{title}: {count(len(shown), 'line')}",
                _drawing(facts, shown, axis.quantity),
                note=f"{_NOTE}{left}",
            )


def _drawing(facts: SweepFacts, lines: Sequence[Series], quantity: str) -> str:
    curves = [line.values(_TAKES) for line in lines]
    xs = [n for numbers, _ in curves for n in numbers]
    low, high = min(0.0, *xs), max(xs)
    top = max(value for _, values in curves for value in values) * 1.08 or 1.0
    limit = facts.capacity.usable if facts.capacity else None
    if limit is not None and limit < 3 * top:  # far above, it would flatten the curves
        top = max(top, limit * 1.08)
    bottom, wide = _TOP + _HIGH, _WIDTH - _LEFT - _RIGHT

    def at(n: float, value: float) -> tuple[float, float]:
        return _LEFT + (n - low) / ((high - low) or 1) * wide, bottom - value / top * _HIGH

    marks = []
    for part in range(5):
        number = low + (high - low) * part / 4
        marks.append(chart.words(at(number, 0)[0], bottom + 16, f"{number:g}", "dim", "middle"))
    power = 10 ** math.floor(math.log10(top / 5))
    step = next(power * n for n in (1, 2, 5, 10) if power * n * 5 >= top)
    for value in (step * n for n in range(int(top / step) + 1)):
        y = at(0, value)[1]
        marks.append(chart.line(_LEFT, y, _LEFT + wide, y, "grid"))
        marks.append(chart.words(_LEFT - 6, y + 4, amount(value), "dim", "end"))
    marks.append(chart.words(_LEFT + wide, bottom + 32, shorten(quantity, 88), "dim", "end"))
    if limit is not None and limit <= top and facts.capacity:
        y = at(0, limit)[1]
        marks.append(chart.line(_LEFT, y, _LEFT + wide, y, "hot"))
        marks.append(chart.words(_LEFT + 4, y - 5, shorten(facts.capacity.words, 60), "dim"))
    names = [", ".join(label for _, label in line.others) for line in lines]
    below = max(map(columns, names)) > _BESIDE
    ends: list[float] = []
    for n, (name, (numbers, values)) in enumerate(zip(names, curves, strict=True)):
        points = [at(x, value) for x, value in zip(numbers, values, strict=True)]
        # Each step is a line of its own, since a path of this kind would be filled.
        marks += [chart.line(*a, *b, chart.hue(n)) for a, b in pairwise(points)]
        for (x, y), number, value in zip(points, numbers, values, strict=True):
            tip = ", ".join(filter(None, (name, f"{quantity} = {number:g}", amount(value))))
            marks.append(chart.circle(x, y, 4, chart.hue(n), tip=tip))
        y = points[-1][1]
        while any(abs(y - other) < 14 for other in ends):
            y += 14
        ends.append(y)
        if name and not below:
            x = points[-1][0]
            marks.append(chart.line(x + 9, y, x + 21, y, chart.hue(n)))
            marks.append(chart.words(x + 25, y + 4, name))
    end = bottom + 44
    for n, name in enumerate(names if below else ()):
        marks.append(chart.line(_LEFT, end, _LEFT + 12, end, chart.hue(n)))
        for text in wrap(name, 88):
            marks.append(chart.words(_LEFT + 18, end + 4, text))
            end += 16
    return chart.chart(_WIDTH, end, marks)
