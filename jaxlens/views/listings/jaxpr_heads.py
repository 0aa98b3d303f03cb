"""Renders the first and last lines of jaxprs: names of inputs, binders, results."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from jaxlens.ir.facts import root_name
from jaxlens.ir.graph import Module, Region
from jaxlens.render.document import Line, Piece
from jaxlens.views.listings.equation import binder, shown

_WIDTH = 96  # characters after which a list of variables is wrapped
_LEGEND = 60  # and the names of inputs, so that none is cut off in a pane beside another
_ALL = 120  # characters of names that are listed one by one
_MANY = 24  # maximum number of results listed one by one
_FEW = 8  # rows of binders that are not folded; results shown of more than `_MANY`


def named_inputs(module: Module, inputs: Sequence[str], captured: Sequence[str]) -> Iterator[Line]:
    """Yields comment lines with the input that each variable is, and which are captured."""
    names = [value.name for value in module.body().parameters]
    split = module.body().constants
    matching = len(inputs) == len(names) - split
    pairs = list(zip(names[split:], inputs, strict=True)) if matching else []
    if len(captured) != split:
        captured = [""] * split
    constants = [
        f"{name} = {full} (captured)" if full else f"{name} captured"
        for name, full in zip(names, captured, strict=False)
    ]
    single = [f"{name} = {full}" for name, full in pairs]
    folded: list[str] = []
    texts = constants
    if _are_many(constants):
        texts, folded = [f"{names[0]} to {names[split - 1]} = {split} captured arrays"], constants
    grouped = list(_by_argument(pairs)) if _are_many(single) else single
    texts = [*texts, *grouped]
    if len(grouped) < len(single):
        folded = [*folded, *single]
    rows = _wrapped([[Piece(f"{text}, ")] for text in texts], most=_LEGEND)
    for row in rows:
        text = "".join(piece.text for piece in row).rstrip(", ")
        more: list[Piece] = []
        if row is rows[-1] and folded:
            more = [Piece(f"; one by one: {', '.join(folded)}", "fold")]
        yield Line((Piece(f"# {text}", "comment"), *more))


def _are_many(texts: Sequence[str]) -> bool:
    return sum(len(text) + 2 for text in texts) > _ALL


def _by_argument(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yields `a to z = params (26 arrays)` for each run of inputs of one argument."""
    for root, run in groupby(pairs, lambda pair: root_name(pair[1])):
        (first, full), *others = run
        if others:
            yield f"{first} to {others[-1][0]} = {root} ({len(others) + 1} arrays)"
        else:
            yield f"{first} = {full}"


def binders(region: Region, start: int, called: Mapping[int, str]) -> list[list[Piece]]:
    """Returns a jaxpr's binders in rows, constvars first; most of many are folded.

    Args:
        region: The nested or outer jaxpr.
        start: Width of the text before each row.
        called: What the user's code calls a parameter, by its number.
    """
    split = region.constants
    groups = [
        [*binder(value, called.get(n, "")), Piece(" ")] for n, value in enumerate(region.parameters)
    ]
    if split:
        groups[split - 1].pop()
    rows = _wrapped([*groups[:split], [Piece("; ")], *groups[split:]], start)
    if len(rows) > _FEW:  # folded but for two: a train step's parameters would fill a page
        rest = [piece for row in rows[2:] for piece in row]
        inputs = sum(piece.kind == "name" for piece in rest)
        text = "".join(piece.text for piece in rest).strip()
        return [*rows[:2], [Piece(f"... {inputs:,} more ", "comment"), Piece(text, "fold")]]
    if rows[-1][-1].text == " ":
        rows[-1].pop()  # a full stop follows
    return rows


def results(region: Region) -> list[Piece]:
    """Returns `(a, b) }`, with most of many results folded."""
    names = list(map(shown, region.results))
    if len(names) <= _MANY:
        return [Piece(f"({', '.join(names)}{',' if len(names) == 1 else ''}) }}")]
    few, rest = ", ".join(names[:_FEW]), ", ".join(names[_FEW:])
    more = Piece(f", ... {len(names) - _FEW:,} more", "comment")
    return [Piece(f"({few}"), more, Piece(f": {rest}", "fold"), Piece(") }")]


def _wrapped(
    groups: Sequence[list[Piece]], start: int = 2, most: int = _WIDTH
) -> list[list[Piece]]:
    """Returns groups of pieces in rows of bounded width."""
    rows: list[list[Piece]] = []
    width = most + 1
    for group in groups:
        size = sum(len(piece.text) for piece in group)
        if width + size > most:
            rows.append([])
            width = start
        rows[-1] += group
        width += size
    return rows
