"""A program's nodes as single lines, each made once, when it is looked at.

A source line shows a few of the nodes under it; a big program has many more.
"""

from collections.abc import Callable, Iterator, Mapping

from jaxlens.ir.graph import Module, Node
from jaxlens.lenses.lines import owners
from jaxlens.render.document import Line


class LinesById(Mapping[str, Line]):
    """Line by node id.

    Args:
        module: The program.
        make: Makes a line of a node and the name of its owner ("" for none).

    Attributes:
        owners: Name of the source line that owns a node, by id.
    """

    def __init__(self, module: Module, make: Callable[[Node, str], Line]) -> None:
        self._nodes = {node.id: node for node in module.nodes()}
        self.owners = {ident: str(span) for ident, span in owners(module).items()}
        self._make = make
        self._made: dict[str, Line] = {}

    def __getitem__(self, ident: str) -> Line:
        line = self._made.get(ident)
        if line is None:
            line = self._make(self._nodes[ident], self.owners.get(ident, ""))
            self._made[ident] = line
        return line

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
