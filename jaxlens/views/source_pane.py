"""The user's source lines with the nodes that each became: one pane per file.

A pane shows only the functions that own nodes. The tint is a line's share of the equations, or of
any number per node (flops, bytes). Files of libraries come last, folded, with the lines that made
equations for the user's lines.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr.python_text import statements
from jaxlens.program.lines import OwnedLines, lines
from jaxlens.render.document import Block, Fold, Line, Piece, SourceLine, SourcePane
from jaxlens.report import Overlay, amount, count, share

_CONTEXT = 2  # lines around a line whose function is unknown or too long to show whole
_WHOLE = 60  # lines of a function that is shown whole
_PARSED = 20_000  # characters of a library's file that is parsed for its functions
_UNDER = 40  # nodes listed under one line, and fewer, at least `_FEWEST`,
_FEWEST = 5
_LISTED = 200  # where they would be more than these in all
_NOUNS = {"jaxpr": ("eqn", "eqns"), "stablehlo": ("op", "ops")}


@dataclass(frozen=True, slots=True)
class Measure:
    """The quantity that tints the lines.

    Attributes:
        scale: Label of the scale ("share of 12 eqns").
        total: Sum over all nodes, of which a line has a share.
        unit: Unit of an overlay's numbers ("flop"); "" to count nodes.
        values: Number per node; None to count nodes.
    """

    scale: str
    total: float
    unit: str = ""
    values: Mapping[str, float] | None = None


def blocks(
    module: Module,
    sources: Mapping[str, Source],
    under: Mapping[str, Line],
    overlay: Overlay | None = None,
    unit: str = "",
    whole: float | None = None,
) -> tuple[Block, ...]:
    """Returns the panes of the user's files, then those of libraries in one fold.

    Args:
        module: The program whose nodes are attributed.
        sources: Source text by `Span.key`.
        under: A line per node id, to show under its source line.
        overlay: A number per node; without one, nodes are counted.
        unit: Unit of the overlay's numbers.
        whole: What the lines have shares of; by default the sum of the overlay.

    Returns:
        The panes; empty if no line of known source text owns a node.
    """
    owned = lines(module)
    if overlay is None:
        noun = _NOUNS.get(owned.stage, ("instruction", "instructions"))
        measure = Measure(f"share of {count(owned.total, *noun)}", owned.total)
    else:
        total = sum(overlay.values.values()) if whole is None else whole
        measure = Measure(f"share of {overlay.title}", total, unit, overlay.values)
    user: list[SourcePane] = []
    library: list[SourcePane] = []
    for key in owned.names:
        source = sources.get(key)
        if source and source.text and (pane := _pane(key, source, owned, measure, under)):
            (library if source.library else user).append(pane)
    folded = Fold(f"in libraries: {count(len(library), 'file')}", tuple(library))
    return (*user, *((folded,) if library else ()))


def _pane(
    key: str, source: Source, owned: OwnedLines, measure: Measure, under: Mapping[str, Line]
) -> SourcePane | None:
    """Returns the pane of one file; None if none of its lines owns or reaches a node."""
    nodes = owned.made if source.library else owned.own
    through = {} if source.library else owned.through
    backward = {} if source.library else owned.backward
    used = sorted(line for file, line in {*nodes, *through} if file == key)
    text = source.text.splitlines()
    whole = not source.library or len(source.text) <= _PARSED
    shown = [n for n in extents(source.text, used, whole) if 1 <= n <= len(text)]
    if not shown:
        return None
    code = {n: text[n - 1].rstrip() for n in shown}
    indent = min((len(row) - len(row.lstrip()) for row in code.values() if row), default=0)
    most = max(_FEWEST, min(_UNDER, _LISTED // max(1, len(used))))

    def row(n: int) -> SourceLine:
        ids, reached = nodes.get((key, n), ()), through.get((key, n), 0)
        if not ids and not reached:
            return SourceLine(n, code[n][indent:])
        share, note, more = _notes(ids, reached, backward.get((key, n), 0), owned.stage, measure)
        rows = [under[i] for i in ids[:most] if i in under]
        if len(ids) > most:
            rows.append(Line((Piece(f"... {len(ids) - most:,} more", "comment"),)))
        owner = f"{source.file}:{n}" if ids else ""
        return SourceLine(n, code[n][indent:], share, note, tuple(rows), owner, more)

    return SourcePane(source.file, measure.scale, tuple(map(row, shown)), indent)


def _notes(
    ids: Sequence[str], through: int, backward: int, stage: str, measure: Measure
) -> tuple[float | None, str, str]:
    """Returns share and note of the nodes that a line owns, and a note on those of its calls."""
    noun = _NOUNS.get(stage, ("instruction", "instructions"))
    inside = through - len(ids)
    if not ids:
        return None, f"{count(inside, *noun)} in calls", ""
    if measure.values is None:
        value, note = float(len(ids)), count(len(ids), *noun)
    else:
        value = sum(measure.values.get(i, 0.0) for i in ids)
        percent = share(value, measure.total) if measure.total else ""
        note = f"{percent}, {amount(value, measure.unit)}" if value else f"0 {measure.unit}"
    parts = [f"{backward:,} backward"] if backward and measure.values is None else []
    parts += [f"{inside:,} more in calls"] if inside > 0 and measure.values is None else []
    return value / measure.total if measure.total else 0.0, note, ", ".join(parts)


def extents(text: str, used: Sequence[int], whole: bool = True) -> list[int]:
    """Returns the lines of a file to show: the functions that contain the used lines.

    Args:
        text: The file's text.
        used: Line numbers that own or reach nodes.
        whole: Whether to parse for functions, which takes milliseconds per 1,000 lines.

    Returns:
        Sorted line numbers. A used line in a function too long to show whole, or in a text
        without known functions, has two lines of context.
    """
    functions = _functions(text) if whole else ()
    shown: set[int] = set()
    for line in used:
        around = [f for f in functions if f[0] <= line <= f[1]]
        first, last = min(around, key=lambda f: f[1] - f[0], default=(line, line))
        if not functions:
            first, last = line - _CONTEXT, line + _CONTEXT
        elif last - first >= _WHOLE:
            first, last = max(first, line - _CONTEXT), min(last, line + _CONTEXT)
        shown.update(range(first, last + 1))
    filled = [n for n, row in enumerate(text.splitlines(), 1) if n in shown and row.strip()]
    return [n for n in sorted(shown) if filled and filled[0] <= n <= filled[-1]]


@lru_cache(32)
def _functions(text: str) -> tuple[tuple[int, int], ...]:
    """Returns first and last line of each function with decorators; none on a syntax error."""
    return tuple(
        (
            min([node.lineno, *(d.lineno for d in node.decorator_list)]),
            node.end_lineno or node.lineno,
        )
        for node in statements(text)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
