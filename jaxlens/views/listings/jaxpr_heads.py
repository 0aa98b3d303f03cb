"""The first and last lines of a jaxpr and its bodies: names of inputs, binders, results."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from jaxlens.ir.graph import Module, Region
from jaxlens.render.document import Line, Piece
from jaxlens.views.header import root_name
from jaxlens.views.listings.equation import binder, shown

_WIDTH = 96  # characters after which a list of variables goes on in the next line
_MANY = 24  # inputs named one by one, and results
_FEW = 8  # rows of inputs that are shown whole; results where there are many


def named_inputs(module: Module, inputs: Sequence[str], captured: Sequence[str]) -> Iterator[Line]:
    """The input that each letter stands for, and which are captured constants."""
    names = [value.name for value in module.body().parameters]
    split = _constants(module)
    pairs: list[tuple[str, str]] = []
    if len(inputs) == len(names) - split:
        pairs = list(zip(names[split:], inputs, strict=True))
    if len(captured) != split:
        captured = [""] * split
    words = [
        f"{name} = {full} (captured)" if full else f"{name} captured"
        for name, full in zip(names, captured, strict=False)
    ]
    words += _by_argument(pairs) if len(pairs) > _MANY else [f"{n} = {full}" for n, full in pairs]
    rows = _wrapped([[Piece(f"{word}, ")] for word in words])
    for row in rows:
        text = "".join(piece.text for piece in row).rstrip(", ")
        more: list[Piece] = []
        if row is rows[-1] and len(pairs) > _MANY:
            every = ", ".join(f"{name} = {full}" for name, full in pairs)
            more = [Piece(f"; one by one: {every}", "fold")]
        yield Line((Piece(f"# {text}", "comment"), *more))


def _by_argument(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """`a to z = params (26 arrays)` for each run of inputs of one argument."""
    for root, run in groupby(pairs, lambda pair: root_name(pair[1])):
        names = [name for name, _ in run]
        if len(names) == 1:
            yield f"{names[0]} = {root}"
        else:
            yield f"{names[0]} to {names[-1]} = {root} ({len(names)} arrays)"


def binders(module: Module, region: Region, start: int) -> list[list[Piece]]:
    """A body's inputs with their types, captured constants first, in rows; the first of many.

    Args:
        module: The program.
        region: The body.
        start: Width of the text before each row.
    """
    split = _constants(module) if region.name == module.entry else 0
    each = [[*binder(value), Piece(" ")] for value in region.parameters]
    if split:
        each[split - 1].pop()
    *rows, last = _headed(_wrapped([*each[:split], [Piece("; ")], *each[split:]], start))
    if last[-1].text == " ":
        last = last[:-1]  # a full stop follows
    return [*rows, last]


def results(region: Region) -> list[Piece]:
    """`(a, b) }`, with those beyond a few folded."""
    names = list(map(shown, region.results))
    if len(names) <= _MANY:
        return [Piece(f"({', '.join(names)}{',' if len(names) == 1 else ''}) }}")]
    few, rest = ", ".join(names[:_FEW]), ", ".join(names[_FEW:])
    more = Piece(f", ... {len(names) - _FEW:,} more", "comment")
    return [Piece(f"({few}"), more, Piece(f": {rest}", "fold"), Piece(") }")]


def _headed(rows: list[list[Piece]]) -> list[list[Piece]]:
    """Shortens the rows of many inputs: a train step's parameters would fill a page."""
    if len(rows) <= _FEW:
        return rows
    rest = [piece for row in rows[2:] for piece in row]
    inputs = sum(piece.kind == "name" for piece in rest)
    words = "".join(piece.text for piece in rest).strip()
    return [*rows[:2], [Piece(f"... {inputs:,} more ", "comment"), Piece(words, "fold")]]


def _constants(module: Module) -> int:
    return len(module.attrs.get("constants", "").split())


def _wrapped(groups: Sequence[list[Piece]], start: int = 2) -> list[list[Piece]]:
    """Groups of pieces in rows of bounded width."""
    rows: list[list[Piece]] = []
    width = _WIDTH + 1
    for group in groups:
        size = sum(len(piece.text) for piece in group)
        if width + size > _WIDTH:
            rows.append([])
            width = start
        rows[-1] += group
        width += size
    return rows
