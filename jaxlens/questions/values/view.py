"""The view of `%%check --values`: what each line and equation held, and the array of one."""

import math
from collections.abc import Iterator, Sequence

from jaxlens.questions.values.facts import Values
from jaxlens.questions.values.report import report
from jaxlens.questions.values.statistics import ExecutionArray
from jaxlens.render import chart
from jaxlens.render.document import Block, Findings, Picture, Tab, TableBlock, Tabs
from jaxlens.views.listings.panes import jaxpr_tab

_TABS = {  # by the title of a table
    "Values by line": ("By line", "lines", "What the floats of each line held."),
    "Values by module": ("By module", "modules", "What the floats of each module held."),
    "Values by equation": ("By equation", "equations", "What the results of each equation held."),
}
_SIDE = 12.0  # pixels of a tile


def blocks(facts: Values, full: bool = False) -> list[Block]:
    """Returns the sentences, the array, the tables, and the jaxpr."""
    answer = report(facts, full)
    listing = jaxpr_tab(facts.subject(), full, in_text=full)
    tabs = tuple(
        Tab(title, (TableBlock(table),), True, help, key)
        for table in answer.tables
        for title, key, help in [_TABS[table.title]]
    )
    picture = () if facts.array is None else (_picture(facts.array),)
    return [Findings(answer.findings), *picture, Tabs((*tabs, listing))]


def _picture(made: ExecutionArray) -> Picture:
    shape = ",".join(map(str, made.array.shape))
    title = f"{made.path[-1]}: {made.dtype}[{shape}]"
    if made.iterations:
        title += f", iteration {' of '.join(str(n) for n in reversed(made.iterations))} (from 0)"
    title += f", device {made.device}" if made.device is not None else ""
    grid, tile = made.tiles, made.tile
    top = max((abs(x) for row in grid for x in row if math.isfinite(x)), default=0.0)
    rows, columns = len(grid), len(grid[0]) if grid else 0
    note = (
        f"A square is {'an element' if tile == (1, 1) else f'a tile of {tile[0]} x {tile[1]}'}, "
        f"its area the largest magnitude there; {top:.4g} is a full one. Filled: positive or 0; "
        "pale: negative; with a frame: NaN or infinite."
    )
    marks = list(_squares(grid, top))
    svg = chart.chart(columns * _SIDE + 16, rows * _SIDE + 16, marks)
    return Picture(title, title, svg, made.text, "", note)


def _squares(grid: Sequence[Sequence[float]], top: float) -> Iterator[str]:
    for row, column, value in (
        (r, c, x) for r, line in enumerate(grid) for c, x in enumerate(line)
    ):
        x, y = 8 + _SIDE * (column + 0.5), 8 + _SIDE * (row + 0.5)
        if not math.isfinite(value):
            half = _SIDE / 2 - 1
            corners = (
                (x - half, y - half),
                (x + half, y - half),
                (x + half, y + half),
                (x - half, y + half),
            )
            yield chart.path((*corners, corners[0]), "hot")
        elif value and top:
            side = max(1.0, (_SIDE - 1) * math.sqrt(abs(value) / top))
            kind = "hue0" if value > 0 else "quiet"
            yield chart.rect(x - side / 2, y - side / 2, side, side, kind)
