"""A program's nodes as single lines, each made on first use and cached.

Source panes show few nodes per line; a large program has many more.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from jaxlens.ir.columns import finder
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.jaxpr.user_names import UserNames
from jaxlens.ir.lazy import LazyMapping
from jaxlens.program.lines import owners
from jaxlens.render.document import Line
from jaxlens.views.listings.equation import equation


class LinesById(LazyMapping[Line]):
    """Line by node id.

    Args:
        module: The program.
        make: Makes the line of a node, from the node and the name of its owner ("" for none).

    Attributes:
        owners: The span that owns a node, by id.
    """

    def __init__(self, module: Module, make: Callable[[Node, str], Line]) -> None:
        super().__init__()
        self._module = module
        self._node = finder(module)
        self.owners = owners(module)
        self._make = make

    def owner(self, ident: str) -> str:
        """Returns the name of the source line that owns a node; "" for none."""
        span = self.owners.get(ident)
        return str(span) if span else ""

    def _value(self, key: str) -> Line:
        return self._make(self._node(key), self.owner(key))

    def at(self, region: Region, step: int) -> Line:
        """Returns the line of a node by region and step, without a look-up of its id."""
        node = region.nodes[step]
        line = self._kept.get(node.id)
        if line is None:
            line = self._kept[node.id] = self._line(node, self.owner(node.id), region, step)
        return line

    def _line(self, node: Node, owner: str, region: Region, step: int) -> Line:
        return self._make(node, owner)

    def called(self, region: str) -> Mapping[int, str]:
        """Returns what the user's code calls the values of a region, by number."""
        return {}

    def results(self, region: str, step: int) -> Sequence[str]:
        """Returns what the user's code calls a step's results, "" for one without a name."""
        return ()

    def __iter__(self) -> Iterator[str]:
        return (node.id for node in self._module.nodes())

    def __len__(self) -> int:
        return sum(len(region.nodes) for region in self._module.regions.values())


class EquationLines(LinesById):
    """The equations of a jaxpr, with what the user's code calls their results.

    Args:
        module: The program.
        names: Names of its values.
    """

    def __init__(self, module: Module, names: UserNames) -> None:
        super().__init__(module, self._named)
        self._names = names

    def called(self, region: str) -> Mapping[int, str]:
        """Returns what the user's code calls the values of a region, by number."""
        return self._names.of(region)

    def results(self, region: str, step: int) -> Sequence[str]:
        """Returns what the user's code calls a step's results, "" for one without a name."""
        return self._names.results(region, step)

    def _named(self, node: Node, owner: str) -> Line:
        return equation(node, owner, self._names.results_of(node.id))

    def _line(self, node: Node, owner: str, region: Region, step: int) -> Line:
        return equation(node, owner, self._names.results(region.name, step))
