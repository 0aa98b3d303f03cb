"""Encodes the lines of a large jaxpr as columns, from which a script makes rows on first use.

Equations are instances of few templates that differ in variables. A template has the text of
avals, primitive and parameters, once for all equations of a kind (see `Columns`); an equation has
its template, place, distances of operands and names of results. That is a few bytes per equation
and needs no `Line`, so all 18,104 equations of a train step fit into the output. A chain of 10,000
equations takes 0.4 kB and 3 ms, where text (`payload.more_html`) would take 61 kB and 200 ms; the
4,200 lines of a train step of 12 layers 13 kB and 10 ms, where text would take 51 and 120.
`listing/jaxpr_rows.js` assembles the rows as `equation.equation` does.
"""

import json
import sys
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import sub
from typing import Any, TypeAlias

from jaxlens.ir.columns import Columns, ColumnsModule, Pool
from jaxlens.ir.graph import Module, Span
from jaxlens.ir.jaxpr.bodies import Ids
from jaxlens.ir.jaxpr.types import notation
from jaxlens.program.lines import handed
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line, Piece
from jaxlens.render.html.marks import MARKS, marked
from jaxlens.render.html.packing import packed
from jaxlens.render.html.payload import Budget
from jaxlens.views.listings.equation import operands, params
from jaxlens.views.listings.jaxpr_stretches import Rows, Stretch

_FEW = 500  # lines up to which columns are not worth their own script
_MOST = 1_000_000  # lines; numbers are written as code points, of which there are 1,114,112
_SURROGATES, _GAP = 0xD800, 0x800  # first surrogate and number of surrogates: not characters
_TRIES = 6

Template: TypeAlias = tuple[list[str], str, list[str], int]
"""Types of results, text of primitive and parameters, literals, and number of operands."""


class ColumnRows(Rows):
    """Lines of a jaxpr that are written to the page as columns (`payload.PackedLines`)."""

    @property
    def packable(self) -> bool:
        """Whether the module has columns, and enough lines to be worth the script."""
        return isinstance(self.module, ColumnsModule) and len(self) > _FEW

    def packed(self, budget: Budget) -> tuple[str, int]:
        """Encodes as many lines as fit the budget, as `payload.more_html` does.

        Returns:
            The element, "" for none, and the number of lines left out.
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
    """Returns the script's input: a line of JSON, then columns, one character per number.

    The JSON has
    - `templates`: `Template`s, whose text has a mark before each piece (`marks.MARKS`);
    - `places`: scope and owner of each place;
    - `lines`: names of source lines; an owner is an index of this list, -1 for none;
    - `names`: the user's names of values;
    - `called`: for each region, the values that have one: number less that of the value before,
      and name, in turn;
    - `regions`: for each region, its number of parameters, the owner of equations without one of
      their own, numbers of steps, operands and values, then first step and number of each id run.
      The columns follow region by region: template and place by step, distance by operand (0 for
      a literal), and name by value, which is the difference of its number from the expected next
      one, zigzag encoded: 0, -1, 1, -2, ... as 0, 1, 2, 3;
    - `rows`: text, id and owner of a line; or region, first step, step after the last, and indent
      of a run of equations.
    """
    page = _Page(more.module, more.called)
    rows = [page.row(row) for row in more.stretches(count)]
    regions = [page.region(name, end) for name, end in page.ends.items()]
    head = {
        "templates": page.templates,
        "places": page.places(),
        "lines": list(page.lines),
        "names": list(page.names),
        "called": page.called,
        "regions": regions,
        "rows": rows,
    }
    return json.dumps(head, separators=(",", ":")) + "\n" + "".join(page.columns)


class _Page:
    """The state shared while rows are encoded.

    Attributes:
        ends: Step after the last one with a row, by region.
        lines: Names of source lines, numbered.
        templates: Templates so far.
        columns: Encoded columns so far.
        names: The user's names of values, numbered.
        called: The values that have one, by region.
    """

    def __init__(self, module: Module, called: Callable[[str], Mapping[int, str]]) -> None:
        if not isinstance(module, ColumnsModule):
            raise TypeError(f"expected a traced program, got a module of {module.stage}")
        self.ends: dict[str, int] = {}
        self.lines: Pool[str] = Pool()
        self.templates: list[Template] = []
        self.columns: list[str] = []
        self.names: Pool[str] = Pool()
        self.called: list[list[int]] = []
        self._called = called
        self._module, self._program = module, module.columns
        self._handed = handed(module)
        self._numbers: dict[Hashable, int] = {}  # templates by kind, by kind and bodies, by size
        self._stretches: dict[str, list[tuple[int, int]]] = {}  # by region
        self._regions: Pool[str] = Pool()

    def row(self, row: Line | Stretch) -> list[Any]:
        """Encodes a line, or a run of equations on one line each."""
        if isinstance(row, Line):
            return [marked(row), visible(row.id), self._line(row.line)]
        name = row.region.name
        self.ends[name] = max(self.ends.get(name, 0), row.high)
        self._stretches.setdefault(name, []).append((row.low, row.high))
        return [self._regions.number(name), row.low, row.high, row.indent]

    def places(self) -> list[list[Any]]:
        """Returns scope and owner of each place."""
        return [[visible(p.scope), self._owner(p.owner)] for p in self._program.places]

    def region(self, name: str, end: int) -> list[Any]:
        """Returns a region's sizes, owner and ids; appends its columns to `columns`."""
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
        self.called.append(self._names(name, values))
        assert isinstance(region.ids, Ids)  # as in every module that was traced
        runs = [(first, id) for first, id, _ in region.ids.runs() if first < end]
        owner = self._owner(self._handed[name])
        return [region.parameters, owner, end, operands, values, *chain.from_iterable(runs)]

    def _names(self, region: str, end: int) -> list[int]:
        """Encodes the names of the values that equations make."""
        encoded, last = list[int](), 0
        first = self._program.regions[region].parameters
        for value, name in sorted(self._called(region).items()):
            if first <= value < end:
                encoded += [value - last, self.names.number(visible(name))]
                last = value
        return encoded

    def _templates_of(self, region: Columns, end: int) -> list[int]:
        """Returns the template of each step; empty for steps with nested jaxprs that no row has."""
        kinds = region.kind[:end]
        firsts = dict(zip(reversed(kinds), range(end - 1, -1, -1), strict=True))
        table = {kind: self._template(region, kind, step) for kind, step in firsts.items()}
        templates = [table[kind] for kind in kinds]
        stretches = iter(sorted(self._stretches[region.name]))
        low = high = 0
        for step in sorted(region.calls):
            while step >= high and (stretch := next(stretches, None)):
                low, high = stretch
            if low <= step < high:
                key = kinds[step], region.calls[step]
                templates[step] = self._number(key, partial(self._equation, region, step))
        return templates

    def _template(self, region: Columns, kind: int, step: int) -> int:
        """Returns the template of a kind; empty for equations with nested jaxprs.

        Such equations have several lines, which are rows of their own.
        """
        if step not in region.calls:
            return self._number(kind, partial(self._equation, region, step))
        results, operands = len(region.values(step)), len(region.distances(step))
        return self._number(("", results, operands), lambda: ([""] * results, "", [], operands))

    def _number(self, key: Hashable, make: Callable[[], Template]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.templates)
            self.templates.append(make())
        return self._numbers[key]

    def _equation(self, region: Columns, step: int) -> Template:
        node = self._module.regions[region.name].nodes[step]
        pieces = (Piece(node.opcode, "op"), *params(node, node.attrs))
        literals = [piece.text for piece in operands(node) if piece.kind == "literal"]
        types = [visible(f":{notation(value.type)}") for value in node.results]
        text = "".join([MARKS[piece.kind] + visible(piece.text) for piece in pieces])
        return types, text, list(map(visible, literals)), len(node.operands)

    def _owner(self, span: Span | None) -> int:
        return self._line(str(span) if span else "")

    def _line(self, name: str) -> int:
        return self.lines.number(name) if name else -1


def _characters(numbers: Sequence[int]) -> str:
    """Returns one character per number, skipping surrogates, which cannot be encoded."""
    if numbers and max(numbers) >= _SURROGATES:
        numbers = [n + _GAP if n >= _SURROGATES else n for n in numbers]
    return array("I", numbers).tobytes().decode(f"utf-32-{sys.byteorder[0]}e")
