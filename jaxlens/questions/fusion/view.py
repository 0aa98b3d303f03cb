"""The view of `%%hlo --fusion`: findings, a chart of fusions with the bytes saved, the diff.

A row of the chart is a frame around a fusion's operations, each in the hue of its source line;
the bar beside it is the bytes of intermediate values that are no longer written and read.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from jaxlens.links.links import Links
from jaxlens.program.sentences import listed
from jaxlens.questions.fusion import report as fusion_report
from jaxlens.questions.fusion.facts import Fused, Fusions
from jaxlens.render import chart
from jaxlens.render.document import Block, Findings, Picture, Tab, TableBlock, Tabs
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import shorten
from jaxlens.render.link_data import Web
from jaxlens.report import amount, count
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.links import weave
from jaxlens.views.passes.hlo_diff import diff as change_diff

_WIDTH, _ROW, _TOP = 860.0, 42.0, 8.0
_NAME, _BOX, _BAR, _END = 10.0, 238.0, 660.0, 850.0  # x of a row's parts, and its end
_CHARACTER = 7.3  # width in pixels of a character of a chart's text
_MOST = 12  # fusions in the chart
_TEXT = 24  # characters of the longest bar in lines of text
_WORDS = 30  # characters of a name
_LARGE = 500  # operations before fusion


def web(links: Links, fusions: Fusions) -> Web | None:
    """Returns links of chart, tables and diff; None for a large program, where they are slow."""
    return weave(links, ("jaxpr", "optimized")) if fusions.before < _LARGE else None


def blocks(fusions: Fusions, full: bool = False) -> list[Block]:
    """Returns findings, the chart, tables and the diff.

    Args:
        fusions: The fusions.
        full: Whether to add the graph, in which fusions open, and to leave nothing out.
    """
    report = fusion_report.report(fusions)
    drawing = picture(fusions)
    inputs = fusions.subject().program.inputs
    shown = change_diff(fusions.change, "Before fusion", "After", fusions.note, full, inputs)
    tabs = [Tab("Before and after fusion", (shown,), in_text=True, key="change")]
    tabs += [Tab("Graph", (hlo_figure.pane(fusions.subject()),), key="graph")] if full else []
    return [
        Findings(report.findings),
        *([drawing] if drawing else []),
        *map(TableBlock, report.tables),
        Tabs(tuple(tabs)),
    ]


def picture(fusions: Fusions) -> Picture | None:
    """Returns the chart of the fusions that save most; None if nothing was fused."""
    shown = fusions.fusions[:_MOST]
    if not shown:
        return None
    left = len(fusions.fusions) - len(shown)
    more = f" {count(left, 'more fusion')} save less." if left else ""
    top = max(fusion.saved * fusion.times for fusion in shown) or 1
    hues = line_hues(line for fusion in shown for line in fusion.places)
    rows = (_cluster(fusion, _TOP + n * _ROW, top, hues) for n, fusion in enumerate(shown))
    return Picture(
        "What each fusion joined, and the bytes that this saved",
        f"{count(len(shown), 'fusion')} as clusters; the most, {amount(top)}, by {shown[0].id}",
        chart.chart(_WIDTH, 2 * _TOP + len(shown) * _ROW, chain.from_iterable(rows)),
        tuple(_text(shown, top)),
        "optimized",
        f"A frame is a fusion, a box an operation in the hue of its source line.{more}",
    )


def _cluster(fusion: Fused, y: float, top: int, hues: Mapping[str, int]) -> Iterator[str]:
    """Yields the marks of a row: name and lines, the operations in their frame, the bar."""
    yield chart.words(_NAME, y + 16, shorten(fusion.id, _WORDS))
    yield chart.words(_NAME, y + 31, shorten(listed(fusion.lines, 2), _WORDS), "dim")
    boxes, end = _boxes(fusion.operations)
    tip = f"{fusion.id}: {', '.join(fusion.operations)}"
    yield chart.rect(_BOX - 6, y + 4, end - _BOX + 12, _ROW - 10, "quiet", tip=tip, id=fusion.id)
    for n, (x, wide, text) in enumerate(boxes):
        operation = fusion.operations[n]
        line = fusion.places[n] if n < len(fusion.places) else ""
        kind = chart.hue(hues[line]) if line in hues else "quiet"
        tip = f"{operation} ({line})" if line else operation
        yield chart.rect(x, y + 9, wide, _ROW - 20, kind, tip=tip, line=line)
        yield chart.words(x + wide / 2, y + 24, text, anchor="middle")
    if len(boxes) < len(fusion.operations):
        rest = len(fusion.operations) - len(boxes)
        yield chart.words(end - 2, y + 24, f"+{rest}", "dim", "end")
    saved = fusion.saved * fusion.times
    wide = (_END - 76 - _BAR) * saved / top
    yield chart.rect(_BAR, y + 12, max(wide, 1), _ROW - 26, "hue0", tip=f"saves {amount(saved)}")
    yield chart.words(_END, y + 24, amount(saved), anchor="end")


def _boxes(operations: Sequence[str]) -> tuple[list[tuple[float, float, str]], float]:
    """Returns x, width and text of each operation's box while there is room, and their end."""
    boxes: list[tuple[float, float, str]] = []
    x = _BOX
    for n, operation in enumerate(operations, 1):
        text = shorten(operation, 16)
        wide = len(text) * _CHARACTER + 12
        rest = 34 if n < len(operations) else 0
        if x + wide + rest > _BAR - 18:
            return boxes, x + 28
        boxes.append((x, wide, text))
        x += wide + 5
    return boxes, x - 5


def _text(shown: Sequence[Fused], top: int) -> Iterator[str]:
    """Yields the chart's rows as lines of text."""
    wide = max(len(shorten(fusion.id, _WORDS)) for fusion in shown)
    for fusion in shown:
        saved = fusion.saved * fusion.times
        bar = "#" * max(round(_TEXT * saved / top), 1 if saved else 0)
        joined = shorten(" + ".join(fusion.operations), 36)
        name = shorten(fusion.id, _WORDS)
        yield f"  {name:<{wide}}  [{joined}]".ljust(wide + 44) + f" {bar} {amount(saved)}"
