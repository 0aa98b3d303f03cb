"""The view of compile time: findings, tables, and a flame graph of equations by call path."""

from collections.abc import Iterator
from dataclasses import replace

from jaxlens.program.equations import MORE, Equations, PathFrame
from jaxlens.questions.times.facts import Times
from jaxlens.questions.times.report import report
from jaxlens.render import chart
from jaxlens.render.document import Block, Picture, TableBlock
from jaxlens.render.graph.palette import line_hues
from jaxlens.report import count
from jaxlens.views.report_blocks import report_blocks

_WIDTH, _ROW, _PAD = 800.0, 22.0, 8.0
_LETTER = 7.3  # width in pixels of a character
_DEPTH, _LINES = 12, 24  # maximum rows of the chart, and lines of its text
_THIN = 0.002  # share of all equations; narrower frames are not drawn


def blocks(times: Times, full: bool = False) -> list[Block]:
    """Returns findings, the flame graph and tables."""
    answer = report(times)
    findings = report_blocks(replace(answer, tables=()))
    return [*findings, *flame(times.equations), *map(TableBlock, answer.tables)]


def flame(counted: Equations) -> list[Block]:
    """Returns the flame graph; nothing for a program without source lines of the user."""
    frames = counted.flame
    if len(frames) < 2:
        return []
    best = max(frames[1:], key=lambda frame: frame.own)
    widest = f"the widest line is {best.line} with {best.own:,}"
    alt = f"{count(counted.total, 'equation')} by call path; {widest}"
    title = "Equations by line and call path"
    note = "Above: who calls. Width: equations made there and below, every call written out."
    return [Picture(title, alt, _drawing(counted), tuple(_text(counted)), note=note)]


def _drawing(counted: Equations) -> str:
    frames = counted.flame
    hues = line_hues(dict.fromkeys(frame.line for frame in frames[1:]))
    scale = (_WIDTH - 2 * _PAD) / (counted.total or 1)
    left: list[float] = []
    filled: list[float] = []  # pixels of a frame that its callees use so far
    marks: list[str] = []
    depth = 0
    for frame in frames:
        at = _PAD if frame.above < 0 else left[frame.above] + filled[frame.above]
        width = frame.equations * scale
        left.append(at)
        filled.append(0.0)
        if frame.above >= 0:
            filled[frame.above] += width
        if frame.depth >= _DEPTH or frame.equations < _THIN * counted.total:
            continue
        depth = max(depth, frame.depth)
        marks += _box(frame, at, width, counted, chart.hue(hues.get(frame.line, 0)))
    return chart.chart(_WIDTH, 2 * _PAD + _ROW * (depth + 1), marks)


def _box(frame: PathFrame, at: float, width: float, counted: Equations, hue: str) -> Iterator[str]:
    top = _PAD + frame.depth * _ROW
    plain = frame.above < 0 or frame.line == MORE
    own = f", {frame.own:,} itself" if frame.own not in (0, frame.equations) else ""
    where = f"{frame.line} in {frame.function}" if frame.function else frame.line
    tip = f"{where}: {frame.equations:,} equations{own} ({frame.equations / counted.total:.1%})"
    line = "" if plain else frame.line
    yield chart.rect(at, top, width - 1, _ROW - 2, "quiet" if plain else hue, tip=tip, line=line)
    name = frame.function.rpartition(".")[2]
    labels = (
        f"{frame.line} {name} {frame.equations:,}".replace("  ", " "),
        f"{frame.line} {frame.equations:,}",
        frame.line,
        frame.line.rpartition(":")[2],
    )
    room = int((width - 8) / _LETTER)
    if label := next((label for label in labels if len(label) <= room), ""):
        yield chart.words(at + 4, top + 14, label)


def _text(counted: Equations) -> Iterator[str]:
    """Yields the flame graph as lines of text: the largest frames, indented by depth."""
    largest = sorted(range(len(counted.flame)), key=lambda n: -counted.flame[n].equations)[:_LINES]
    total = counted.total or 1
    width = len(f"{total:,}")
    for n in sorted(largest):
        frame = counted.flame[n]
        bar = "#" * max(round(20 * frame.equations / total), 1)
        name = f"{frame.line} {frame.function}".strip()
        yield f"{frame.equations:>{width},} {bar:<20} {'  ' * min(frame.depth, 12)}{name}"
    left = len(counted.flame) - len(largest)
    if left:
        yield f"{count(left, 'smaller frame')} left out"
