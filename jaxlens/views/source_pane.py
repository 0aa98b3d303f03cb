"""The user's source lines with the nodes that each became: one pane per file.

A pane shows only the functions that own nodes. The tint is a line's share of the equations, or of
any number per node (flops, bytes). Files of libraries come last, folded, with the lines that made
equations for the user's lines.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Module
from jaxlens.lenses.lines import OwnedLines, lines
from jaxlens.render.document import Block, Fold, Line, Piece, SourceLine, SourcePane
from jaxlens.report import Overlay, amount, count

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
) -> tuple[Block, ...]:
    """Returns the panes of the user's files, then those of libraries in one fold.

    Args:
        module: The program whose nodes are attributed.
        sources: Source text by `Span.key`.
        under: A line per node id, to show under its source line.
        overlay: A number per node; without one, nodes are counted.
        unit: Unit of the overlay's numbers.

    Returns:
        The panes; empty if no line of known source text owns a node.
    """
    found = lines(module)
    measure = _measure(found, overlay, unit)
    user: list[SourcePane] = []
    library: list[SourcePane] = []
    for key in found.names:
        source = sources.get(key)
        if source is None or not source.text:
            continue
        pane = _pane(key, source, found, measure, under)
        if pane is not None:
            (library if source.library else user).append(pane)
    folded = Fold(f"in libraries: {count(len(library), 'file')}", tuple(library))
    return (*user, *((folded,) if library else ()))


def _measure(found: OwnedLines, overlay: Overlay | None, unit: str) -> Measure:
    if overlay is None:
        noun = _NOUNS.get(found.stage, ("instruction", "instructions"))
        return Measure(f"share of {count(found.total, *noun)}", found.total)
    total = sum(overlay.values.values())
    return Measure(f"share of {overlay.title}", total, unit, overlay.values)


def _pane(
    key: str, source: Source, found: OwnedLines, measure: Measure, under: Mapping[str, Line]
) -> SourcePane | None:
    """Returns the pane of one file; None if none of its lines owns or reaches a node."""
    owned = found.made if source.library else found.own
    used = sorted(line for file, line in {*owned, *found.through} if file == key)
    if source.library:
        used = [line for line in used if (key, line) in owned]
    text = source.text.splitlines()
    whole = not source.library or len(source.text) <= _PARSED
    shown = [n for n in extents(source.text, used, whole) if 1 <= n <= len(text)]
    if not shown:
        return None
    through = {} if source.library else found.through
    backward = {} if source.library else found.backward
    most = max(_FEWEST, min(_UNDER, _LISTED // max(1, len(used))))
    rows = tuple(
        _row(
            n,
            text[n - 1],
            source.file,
            owned.get((key, n), ()),
            through.get((key, n), 0),
            backward.get((key, n), 0),
            found.stage,
            measure,
            under,
            most,
        )
        for n in shown
    )
    return SourcePane(source.file, measure.scale, _dedented(rows))


def _row(
    number: int,
    text: str,
    file: str,
    ids: Sequence[str],
    through: int,
    backward: int,
    stage: str,
    measure: Measure,
    under: Mapping[str, Line],
    most: int,
) -> SourceLine:
    owner = f"{file}:{number}" if ids else ""
    if not ids and not through:
        return SourceLine(number, text.rstrip())
    share, note, more = _told(ids, through, backward, stage, measure)
    rows = [under[i] for i in ids[:most] if i in under]
    if len(ids) > most:
        rows.append(Line((Piece(f"... {len(ids) - most:,} more", "comment"),)))
    return SourceLine(number, text.rstrip(), share, note, tuple(rows), owner, more)


def _told(
    ids: Sequence[str], through: int, backward: int, stage: str, measure: Measure
) -> tuple[float | None, str, str]:
    """Returns share and note of the nodes that a line owns, and a note on those of its calls."""
    one, many = _NOUNS.get(stage, ("instruction", "instructions"))
    inside = through - len(ids)
    if not ids:
        return None, f"{count(inside, one, many)} in calls", ""
    if measure.values is None:
        value, note = float(len(ids)), count(len(ids), one, many)
    else:
        value = sum(measure.values.get(i, 0.0) for i in ids)
        percent = f"{value / measure.total:.0%}" if measure.total else ""
        percent = "< 1%" if value and percent == "0%" else percent
        note = f"{percent}, {amount(value, measure.unit)}" if value else f"0 {measure.unit}"
    parts = [f"{backward:,} backward"] if backward and measure.values is None else []
    parts += [f"{inside:,} more in calls"] if inside > 0 and measure.values is None else []
    return value / measure.total if measure.total else 0.0, note, ", ".join(parts)


def _dedented(rows: tuple[SourceLine, ...]) -> tuple[SourceLine, ...]:
    """Returns the rows without their common indentation."""
    depths = [len(row.text) - len(row.text.lstrip()) for row in rows if row.text.strip()]
    cut = min(depths, default=0)
    if not cut:
        return rows
    return tuple(replace(row, text=row.text[cut:]) for row in rows)


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
        if last - first >= _WHOLE or not functions:
            first, last = max(first, line - _CONTEXT), min(max(last, line), line + _CONTEXT)
            if not functions:
                first, last = line - _CONTEXT, line + _CONTEXT
        shown.update(range(first, last + 1))
    return _without_blank_edges(sorted(n for n in shown if n >= 1), text.splitlines())


def _without_blank_edges(shown: list[int], text: Sequence[str]) -> list[int]:
    def blank(number: int) -> bool:
        return number > len(text) or not text[number - 1].strip()

    while shown and blank(shown[0]):
        shown.pop(0)
    while shown and blank(shown[-1]):
        shown.pop()
    return shown


@lru_cache(32)
def _functions(text: str) -> tuple[tuple[int, int], ...]:
    """Returns first and last line of each function with decorators; none on a syntax error."""
    python = "\n".join("" if row.lstrip()[:1] in ("%", "!") else row for row in text.splitlines())
    try:
        tree = ast.parse(python)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.append((first, node.end_lineno or node.lineno))
        for block in _BLOCKS:  # a `def` is a statement of a block, so expressions are skipped
            pending.extend(getattr(node, block, ()))
    return tuple(found)


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
