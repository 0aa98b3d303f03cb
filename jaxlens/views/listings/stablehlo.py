"""Renders StableHLO as MLIR prints it, each line linked to its op, after the arguments' names."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from jaxlens.errors import ReadError
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module
from jaxlens.ir.stablehlo.text import PrintedLine, printed
from jaxlens.program.lines import owners
from jaxlens.render.document import Line, Listing, Piece
from jaxlens.render.html.lazy_lines import WrittenLine, listed
from jaxlens.views.listings.stablehlo_words import FORM

LIMIT = 2000
_MANY = 8  # arguments from which their names are folded


def listing(
    module: Module, text: str, *, limit: int = LIMIT, inputs: Sequence[Input] = ()
) -> Listing:
    """Returns the listing of a whole module.

    Args:
        module: A StableHLO module.
        text: The same program as MLIR prints it.
        limit: Maximum number of lines before `more`.
        inputs: The inputs of its program.
    """
    owner_names = {i: str(span) for i, span in owners(module).items()}
    arguments = list(_arguments(module, {leaf.path: leaf.name for leaf in inputs if leaf.path}))
    hidden = 0
    if len(arguments) >= _MANY:
        hidden = len(arguments)
        title = Piece(f"// {hidden:,} arguments and what the program calls them", "comment")
        arguments.insert(0, Line((title,), folds=hidden))
    total = len(arguments) + text.rstrip("\n").count("\n") + 1
    head = min(limit, total - hidden)

    def lines(most: int = total) -> Iterator[Line | WrittenLine]:
        yield from arguments
        for line in _printed(text, module, most):
            owner = owner_names.get(line.node or line.inside, "")
            yield WrittenLine(
                " " * (line.indent % 2) + line.text, line.node, line.indent // 2, owner
            )

    return listed("stablehlo", total, head, lines, form=FORM)


def _printed(text: str, module: Module, limit: int) -> list[PrintedLine]:
    """Returns the printed lines with their ops; without, if a later MLIR's format is unknown."""
    try:
        return list(islice(printed(text, module), limit))
    except ReadError:
        printed_rows = text.rstrip("\n").split("\n")[:limit]
        return [PrintedLine(r.lstrip(" "), len(r) - len(r.lstrip(" "))) for r in printed_rows]


def _arguments(module: Module, names: Mapping[str, str]) -> Iterator[Line]:
    """Yields comment lines with the names of the entry's arguments in the user's program.

    Args:
        module: A StableHLO module.
        names: Names of inputs by JAX's own, where a library's jit gives them others.
    """
    for index, value in enumerate(module.body().parameters):
        if text := module.attrs.get(f"main arg{index}", ""):
            name, _, marks = text.partition(" {")
            fold = [Piece(f" {{{marks}", "fold")] if marks else []
            yield Line((Piece(f"// %{value.name} = {names.get(name, name)}", "comment"), *fold))
