"""Folds long runs of parameters, tuple elements and results in listings of HLO.

A train step has a parameter for each array of its state, and as many results.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from jaxlens.ir.graph import Node
from jaxlens.render.document import Line, Piece
from jaxlens.report import amount, count, tally, total

MANY = 8  # lines from which they are folded
_MANY_READ = 25  # operands of an instruction that computes something
SHOWN = 3  # operands of such a tuple, and inputs of such a computation, that one line names
_HANDING_ON = frozenset({"get-tuple-element", "tuple", "bitcast"})


class LineRun(NamedTuple):
    """Neighbouring lines.

    Attributes:
        parts: Instructions, or lines of another kind.
        fold: The line that stands for them until it is opened; None where they are shown.
    """

    parts: Sequence[Node | Line]
    fold: Line | None = None


def runs(nodes: Sequence[Node], root: str) -> Iterator[LineRun]:
    """Yields the lines of a computation's instructions, in order but for its parameters.

    A scheduler puts parameters anywhere, so many of them come first.

    Args:
        nodes: The instructions that have a line.
        root: The id of the root.
    """
    if len(nodes) < MANY:
        yield LineRun(nodes)
        return
    parameters = [node for node in nodes if node.opcode == "parameter"]
    if len(parameters) >= MANY:
        size = amount(total(node.type.bytes for node in parameters))
        yield LineRun(parameters, _fold(parameters, f", {size}"))
        nodes = [node for node in nodes if node.opcode != "parameter"]
    for handing_on, group in groupby(nodes, lambda n: n.opcode in _HANDING_ON and n.id != root):
        run = list(group)
        folds = handing_on and len(run) >= MANY
        yield LineRun(run, _fold(run) if folds else None)
        if run[-1].id == root and run[-1].opcode == "tuple" and is_long(run[-1]):
            yield _results(run[-1].operands)


def is_long(node: Node) -> bool:
    """Whether an instruction has so many operands that its line names only the first of them."""
    hands_on = node.opcode == "fusion" and len(node.type.parts) >= MANY
    return len(node.operands) >= (MANY if hands_on or node.opcode == "tuple" else _MANY_READ)


def operands(node: Node, names: Mapping[str, str]) -> str:
    """Returns an instruction's operands as its line shows them.

    Args:
        node: The instruction.
        names: What the user's code calls the program's parameters, by id.
    """
    every = [names.get(name, name) for name in node.operands] if names else node.operands
    if not is_long(node):
        return ", ".join(every)
    return f"{', '.join(every[:SHOWN])} and {len(every) - SHOWN:,} more"


def _fold(nodes: Sequence[Node], more: str = "") -> Line:
    """Returns `parameter x 94, 2.46 MB`."""
    pieces: list[Piece] = []
    for text in tally(node.opcode for node in nodes):
        opcode, _, times = text.partition(" ")
        pieces += [Piece(", ")] if pieces else []
        pieces += [Piece(opcode, "op"), Piece(f" {times}" if times else "", "comment")]
    return Line((*pieces, Piece(more, "comment")), indent=1, folds=len(nodes))


def _results(names: Iterable[str]) -> LineRun:
    """Returns a line for each result of a program, which names the instruction that makes it."""
    lines = [
        Line((Piece(name, "name"), Piece(f"  // result {n}", "comment")), name, 2)
        for n, name in enumerate(names)
    ]
    fold = Line((Piece(count(len(lines), "result"), "comment"),), indent=1, folds=len(lines))
    return LineRun(lines, fold)
