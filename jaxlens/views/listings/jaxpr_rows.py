"""The lines of a large jaxpr for a page, as columns, from which a script makes rows on first use.

Equations are few templates with other variables. A template has the text of types, primitive and
parameters, once for all equations of a kind (see `Columns`); each equation has its template,
origin, distances of operands and names of results. That is a few bytes an equation and no `Line`,
so all 18,104 equations of a train step travel. 10,000 equations in a line take 0.4 kB and 3 ms,
where text (`payload.more_html`) would take 61 kB and 200 ms; the 4,200 lines of a train step of 12
layers 13 kB and 10 ms, where text would take 51 and 120.
`listing/jaxpr_rows.js` puts the rows together as `equation.equation` does.
"""

import json
import sys
from array import array
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import chain
from operator import sub
from typing import Any, TypeAlias

from jaxlens.ir.columns import Columns, ColumnsModule, Pool
from jaxlens.ir.graph import Module, Span
from jaxlens.ir.jaxpr.bodies import Ids
from jaxlens.ir.jaxpr.types import notation
from jaxlens.lenses.lines import handed
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line, Piece
from jaxlens.render.html.marks import MARKS, marked
from jaxlens.render.html.packing import packed
from jaxlens.render.html.payload import Budget
from jaxlens.views.listings.equation import operands, params
from jaxlens.views.listings.jaxpr_stretches import Rows, Stretch

_FEW = 500  # lines that need no script of their own
_MOST = 1_000_000  # lines; numbers are written as characters, and there are not many more
_SURROGATES, _GAP = 0xD800, 0x800  # numbers that are no characters
_TRIES = 6

Template: TypeAlias = tuple[list[str], str, list[str], int]
"""Types of results, words, literals, and how many operands there are."""


class ColumnRows(Rows):
    """Lines of a jaxpr that travel as columns (`payload.PackedLines`)."""

    @property
    def packable(self) -> bool:
        """Whether they are those of a traced program, and enough to be worth a script."""
        return isinstance(self.module, ColumnsModule) and len(self) > _FEW

    def packed(self, budget: Budget) -> tuple[str, int]:
        """As many lines as fit, as `payload.more_html`.

        Returns:
            The element, "" for none; and how many lines were left out.
        """
        count = min(len(self), _MOST)
        for _ in range(_TRIES):
            if not count:
                break
            text = packed(rows_text(self, count))
            element = f'<script type="application/json" data-jl=jaxpr>{text}</script>'
            if len(element) <= budget.bytes:
                return budget.take(element), len(self) - count
            count = int(count * budget.bytes / len(element) * 0.9)
        return "", len(self)


def rows_text(more: Rows, count: int) -> str:
    """What the script reads: a line of JSON, then columns, a character for each number.

    The JSON holds
    - `templates`: as `Template`, the words with signs before their kinds (`marks.MARKS`);
    - `places`: scope and owner of what equations of a place say of where they come from;
    - `lines`: names of source lines; an owner is its place there, -1 for none;
    - `regions`: parameters, owner of what has no place, steps, operands and values of each, and
      first step and number of each run of its ids. The columns are theirs, in turn: template and
      place by step, distance by operand (0 for a literal), and name by value, which is how far
      its letters' number is from the next one to be expected: 0, -1, 1, -2, ... as 0, 1, 2, 3;
    - `rows`: words, id and owner of a line; region, first and last step, and indent of equations.
    """
    page = _Page(more.module)
    rows = [page.row(row) for row in more.stretches(count)]
    regions = [page.region(name, end) for name, end in page.ends.items()]
    head = {
        "templates": page.templates,
        "places": page.places(),
        "lines": list(page.lines),
        "regions": regions,
        "rows": rows,
    }
    return json.dumps(head, separators=(",", ":")) + "\n" + "".join(page.columns)


class _Page:
    """What rows share.

    Attributes:
        ends: Regions that have rows, and the step after the last that has one.
        lines: Source lines.
        templates: Templates so far.
        columns: What was written of columns so far.
    """

    def __init__(self, module: Module) -> None:
        if not isinstance(module, ColumnsModule):
            raise TypeError(f"expected a traced program, got a module of {module.stage}")
        self.ends: dict[str, int] = {}
        self.lines: Pool[str] = Pool()
        self.templates: list[Template] = []
        self.columns: list[str] = []
        self._module, self._program = module, module.columns
        self._handed = handed(module)
        self._known: dict[Hashable, int] = {}  # templates by kind, by kind and bodies, by size
        self._ways: dict[str, list[tuple[int, int]]] = {}  # stretches of a region
        self._regions: Pool[str] = Pool()

    def row(self, row: Line | Stretch) -> list[Any]:
        """A line, or equations of one line each."""
        if isinstance(row, Line):
            return [marked(row), visible(row.id), self._line(row.line)]
        name = row.region.name
        self.ends[name] = max(self.ends.get(name, 0), row.high)
        self._ways.setdefault(name, []).append((row.low, row.high))
        return [self._regions.number(name), row.low, row.high, row.indent]

    def places(self) -> list[list[Any]]:
        """Scope and owner of each place."""
        return [[visible(p.scope), self._owner(p.owner)] for p in self._program.places]

    def region(self, name: str, end: int) -> list[Any]:
        """A region's sizes, owner and ids; its columns are written."""
        region = self._program.regions[name]
        operands, values = region.first_operand[end], region.first_result[end]
        names = self._module.value_numbers(name)[:values]
        steps = map(sub, names, chain((-1,), names))
        columns = (
            self._templates_of(region, end),
            region.place[:end],
            region.distance[:operands],
            [2 * n - 2 if n > 0 else 1 - 2 * n for n in steps],
        )
        self.columns += map(_characters, columns)
        runs = [(first, id) for first, id, _ in _ids(region).runs() if first < end]
        owner = self._owner(self._handed[name])
        return [region.parameters, owner, end, operands, values, *chain.from_iterable(runs)]

    def _templates_of(self, region: Columns, end: int) -> list[int]:
        """The template of each step; those that no row shows may have an empty one."""
        kinds = region.kind[:end]
        firsts = dict(zip(reversed(kinds), range(end - 1, -1, -1), strict=True))
        table = {kind: self._template(region, kind, step) for kind, step in firsts.items()}
        found = [table[kind] for kind in kinds]
        ways = iter(sorted(self._ways[region.name]))
        low = high = 0
        for step in sorted(region.calls):
            while step >= high and (way := next(ways, None)):
                low, high = way
            if low <= step < high:
                key = kinds[step], region.calls[step]
                found[step] = self._number(key, partial(self._shown, region, step))
        return found

    def _template(self, region: Columns, kind: int, step: int) -> int:
        """Equations with bodies of their own stand on several lines, which are written as such."""
        if step not in region.calls:
            return self._number(kind, partial(self._shown, region, step))
        results, operands = len(region.values(step)), len(region.distances(step))
        return self._number(("", results, operands), lambda: ([""] * results, "", [], operands))

    def _number(self, key: Hashable, make: Callable[[], Template]) -> int:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.templates)
            self.templates.append(make())
        return known

    def _shown(self, region: Columns, step: int) -> Template:
        node = self._module.regions[region.name].nodes[step]
        words = (Piece(node.opcode, "op"), *params(node, node.attrs))
        literals = [piece.text for piece in operands(node) if piece.kind == "literal"]
        types = [visible(f":{notation(value.type)}") for value in node.results]
        text = "".join([MARKS[piece.kind] + visible(piece.text) for piece in words])
        return types, text, list(map(visible, literals)), len(node.operands)

    def _owner(self, span: Span | None) -> int:
        return self._line(str(span) if span else "")

    def _line(self, name: str) -> int:
        return self.lines.number(name) if name else -1


def _ids(region: Columns) -> Ids:
    if not isinstance(region.ids, Ids):
        raise TypeError(f"expected ids as runs of numbers, got {type(region.ids).__name__}")
    return region.ids


def _characters(numbers: Sequence[int]) -> str:
    """A character for each number: surrogates, which cannot be written, are jumped over."""
    if numbers and max(numbers) >= _SURROGATES:
        numbers = [n + _GAP if n >= _SURROGATES else n for n in numbers]
    return array("I", numbers).tobytes().decode(f"utf-32-{sys.byteorder[0]}e")
