"""StableHLO as JAX prints it, each line tied to its op.

Above it stands what the entry's arguments are called in the user's program.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from jaxlens.errors import ReadError
from jaxlens.ir.graph import Module
from jaxlens.ir.stablehlo.text import PrintedLine, printed
from jaxlens.lenses.lines import owners
from jaxlens.render.document import Line, Listing, Piece
from jaxlens.render.html.lazy_lines import LateLines, Row, row_of
from jaxlens.views.listings.stablehlo_rows import rows
from jaxlens.views.listings.stablehlo_words import pieces

LIMIT = 2000


def listing(module: Module, text: str, *, limit: int = LIMIT) -> Listing:
    """The whole module.

    Args:
        module: StableHLO.
        text: The same program as MLIR prints it.
        limit: Most lines.
    """
    known = {i: str(span) for i, span in owners(module).items()}
    arguments = list(_arguments(module))
    left = len(arguments) + text.rstrip("\n").count("\n") + 1 - limit

    def every(most: int) -> Iterator[Line]:
        yield from arguments
        yield from (_line(line, known) for line in _printed(text, module, most))

    def write() -> Iterator[Row]:
        yield from map(row_of, arguments)
        yield from rows(_printed(text, module, limit + left), known)

    kept = tuple(islice(every(limit), limit))
    if left <= 0:
        return Listing("stablehlo", kept)
    more = LateLines(
        left,
        lambda: islice(every(limit + left), limit, None),
        lambda: islice(write(), limit, None),
    )
    return Listing("stablehlo", kept, more=more)


def _printed(text: str, module: Module, limit: int) -> list[PrintedLine]:
    """The lines; without their ops where a later MLIR prints in a way not known here."""
    try:
        return list(islice(printed(text, module), limit))
    except ReadError:
        printed_rows = text.rstrip("\n").split("\n")[:limit]
        return [PrintedLine(r.lstrip(" "), len(r) - len(r.lstrip(" "))) for r in printed_rows]


def _line(line: PrintedLine, known: Mapping[str, str]) -> Line:
    odd = (Piece(" "),) if line.indent % 2 else ()
    owner = known.get(line.node or line.inside, "")
    return Line((*odd, *pieces(line.text)), line.node, line.indent // 2, owner)


def _arguments(module: Module) -> Iterator[Line]:
    """What the entry's arguments are called in the user's program."""
    for index, value in enumerate(module.body().parameters):
        if text := module.attrs.get(f"main arg{index}", ""):
            name, _, marks = text.partition(" {")
            fold = [Piece(f" {{{marks}", "fold")] if marks else []
            yield Line((Piece(f"// %{value.name} = {name}", "comment"), *fold))
