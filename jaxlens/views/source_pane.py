"""The user's own lines with what each became: one pane per file, the functions involved alone.

The tint is the share of equations by default, or of any number per node (flops, bytes).
Files of libraries come last, folded, with the lines that made equations for the user's.
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

_CONTEXT = 2  # lines round a line whose function is not known or is too long to show whole
_WHOLE = 60  # lines of a function that is shown whole
_PARSED = 20_000  # characters of a library's file that is parsed for its functions
_UNDER = 40  # nodes listed under one line, and fewer, at least `_FEWEST`,
_FEWEST = 5
_LISTED = 200  # where they would be more than these in all
_NOUNS = {"jaxpr": ("eqn", "eqns"), "stablehlo": ("op", "ops")}


@dataclass(frozen=True, slots=True)
class Measure:
    """What tints the lines.

    Attributes:
        scale: What a full bar is ("share of 12 eqns").
        total: What the shares are shares of.
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
    """Panes of the user's files, then the libraries' in one fold.

    Args:
        module: The program whose nodes are attributed.
        sources: Text by `Span.key`.
        under: A line per node id, to stand under its source line.
        overlay: A number per node; nodes are counted without one.
        unit: Unit of the overlay's numbers.

    Returns:
        Nothing for a program that no line of known text owns.
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
    """One file; None where no line of it is involved."""
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
    """Share and note of a line: what it owns; and what else there is: what its calls reach."""
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
    """Without the indentation that all rows share."""
    depths = [len(row.text) - len(row.text.lstrip()) for row in rows if row.text.strip()]
    cut = min(depths, default=0)
    if not cut:
        return rows
    return tuple(replace(row, text=row.text[cut:]) for row in rows)


def extents(text: str, used: Sequence[int], whole: bool = True) -> list[int]:
    """The lines to show of a file: the functions that hold the used lines.

    Args:
        text: The file's text.
        used: Line numbers that matter.
        whole: Whether to look for functions, which takes milliseconds per 1,000 lines.

    Returns:
        Sorted line numbers. A function too long to show whole, and a line outside all
        functions, come with two lines of context.
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
    """First and last line of every function, decorators included; none where it cannot parse."""
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
        for block in _BLOCKS:  # a `def` stands in a block, so expressions need no look
            pending.extend(getattr(node, block, ()))
    return tuple(found)


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
