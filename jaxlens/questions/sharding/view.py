"""The view of `%%compile --sharding`: a chart of tiles by device, collectives, the program."""

from collections.abc import Sequence
from itertools import product

from jaxlens.captures import Capture
from jaxlens.ir.hlo.shardings import Tiling
from jaxlens.questions.sharding.facts import Sharding, Spread
from jaxlens.questions.sharding.report import report
from jaxlens.render import chart
from jaxlens.render.document import Block, Findings, Picture, TableBlock, Tabs
from jaxlens.render.graph.text_width import shorten
from jaxlens.report import Overlay, amount
from jaxlens.views import source_pane
from jaxlens.views.listings.hlo import instructions
from jaxlens.views.listings.panes import pane, stage_pane

_WIDTH, _CELL, _ROOM = 900, 180, 110  # width of the chart and of an array, height of its tiles
_MOST = 20  # arrays drawn
_GRID = 32  # tiles along a side that are drawn one by one


def blocks(sharding: Sharding, full: bool = False) -> list[Block]:
    """Returns findings, the chart of inputs and results, tables, and the program."""
    answer = report(sharding)
    shown: list[Block] = [Findings(answer.findings)]
    if sharding.devices > 1:
        shown += [*pictures(sharding), *map(TableBlock, answer.tables)]
        shown.append(_program(sharding.subject(), answer.overlays, full))
    return shown


def _program(subject: Capture, overlays: Sequence[Overlay], full: bool) -> Tabs:
    """Returns the user's lines, tinted by the bytes of their collectives, and one device's HLO."""
    hlo = stage_pane(subject, "optimized", full, "What one device runs")
    module = subject.optimized.module
    tint = next(iter(overlays), None)
    lines = pane(
        "source",
        lambda: source_pane.blocks(
            module, subject.sources, instructions(module, brief=True), tint, "B" if tint else ""
        ),
        title="Your code",
        help="Your lines, tinted by what their collectives send.",
    )
    return Tabs(tuple(tab for tab in (lines, hlo) if tab.blocks), open=("source", "optimized"))


def pictures(sharding: Sharding) -> list[Block]:
    """Returns a chart with a grid for each input and result; tiles are labelled with devices."""
    arrays = [a for a in (*sharding.inputs, *sharding.outputs) if a.tiling is not None]
    distinct = _distinct(arrays)
    shown = distinct[:_MOST]
    if not shown:
        return []
    columns = _WIDTH // _CELL
    marks: list[str] = []
    for n, (array, names) in enumerate(shown):
        marks += _array(array, names, n % columns * _CELL + 10, n // columns * (_ROOM + 64) + 8)
    height = -(-len(shown) // columns) * (_ROOM + 64) + 8
    width = min(len(shown), columns) * _CELL + 10
    left = len(distinct) - len(shown)
    note = f"{left} more arrays are in the table." if left else ""
    text = tuple(_line(array, names) for array, names in shown)
    alt = f"Which of {sharding.devices} devices hold which tiles of {len(arrays)} arrays"
    return [Picture("Who holds what", alt, chart.chart(width, height, marks), text, note=note)]


def _distinct(arrays: Sequence[Spread]) -> list[tuple[Spread, str]]:
    """Returns one array of each kind, type and sharding, labelled with the number of others."""
    groups: dict[tuple[str, str, str, Tiling | None], list[Spread]] = {}
    for array in arrays:
        key = array.kind, str(array.type), array.spec, array.tiling
        groups.setdefault(key, []).append(array)
    return [
        (same[0], same[0].name + (f" and {len(same) - 1} more" if len(same) > 1 else ""))
        for same in groups.values()
    ]


def _array(array: Spread, names: str, x: float, y: float) -> list[str]:
    """Returns the marks of an array: its name, type and spec, and its tiles."""
    tiling = array.tiling
    assert tiling is not None  # others are not drawn
    more = names.removeprefix(array.name)
    marks = [
        chart.words(x, y + 12, shorten(array.name, 24 - len(more)) + more),
        chart.words(x, y + 26, shorten(f"{array.kind} {array.type}", 28), "dim"),
        chart.words(x, y + 40, array.spec, "dim"),
    ]
    rows, columns, beyond = _grid(tiling)
    w, h = (_CELL - 24) / columns, _ROOM / max(rows, 2) if rows > 1 else 36
    for n, (row, column) in enumerate(product(range(rows), range(columns))):
        holders = tiling.holders[n * beyond] if n * beyond < len(tiling.holders) else ()
        name = _devices(holders)
        tip = f"{names}: tile {row},{column} on device {', '.join(map(str, holders))}"
        left, top = x + column * w, y + 48 + row * h
        marks.append(chart.rect(left, top, w, h, chart.hue(n), tip=tip))
        if w > 6 * len(name) + 4 and h >= 14:
            marks.append(chart.words(left + w / 2, top + h / 2 + 4, name, "dim", "middle"))
    return marks


def _grid(tiling: Tiling) -> tuple[int, int, int]:
    """Returns rows and columns of the first two tiled dimensions, and the tiles behind each."""
    cut = [n for n in tiling.tiles if n > 1]
    if not cut:
        return 1, 1, 1
    if len(cut) == 1:
        first = tiling.tiles.index(cut[0]) == 0 and len(tiling.tiles) > 1
        size = min(cut[0], _GRID)
        return (size, 1, 1) if first else (1, size, 1)
    return min(cut[0], _GRID), min(cut[1], _GRID), tiling.parts // (cut[0] * cut[1])


def _devices(holders: Sequence[int]) -> str:
    """Returns device ids as text: `0 2 4 6`, or `0-7` for a range."""
    if len(holders) > 2 and holders[-1] - holders[0] == len(holders) - 1:
        return f"{holders[0]}-{holders[-1]}"
    return " ".join(map(str, holders))


def _line(array: Spread, names: str) -> str:
    """Returns an array's tiles as a line of text."""
    tiling, piece = array.tiling, array.piece
    assert tiling is not None
    assert piece is not None
    spec = f" {array.spec}" if array.spec else ""
    if tiling.parts == 1:
        return f"  {array.kind} {names} {array.type}{spec}: whole on {tiling.copies} devices"
    tiles = " | ".join(_devices(holders) for holders in tiling.holders[:8])
    more = " | ..." if tiling.parts > 8 else ""
    summary = f"{tiling.parts} tiles {piece} ({amount(piece.bytes)})"
    return f"  {array.kind} {names} {array.type}{spec}: {summary} on devices {tiles}{more}"
