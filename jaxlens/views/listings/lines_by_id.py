"""A program's nodes as single lines, each made on first use and cached.

Source panes show few nodes per line; a large program has many more.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from jaxlens.ir.columns import finder
from jaxlens.ir.graph import Module, Region
from jaxlens.ir.jaxpr.user_names import UserNames
from jaxlens.ir.lazy import LazyMapping
from jaxlens.program.lines import owners
from jaxlens.render.document import Line


class LinesById(LazyMapping[Line]):
    """Line by node id.

    Args:
        module: The program.
        make: Makes the line of a node, from the node and the name of its owner ("" for none); with
            `names` also from what the user's code calls its results, "" for one without a name.
        names: Names of a jaxpr's values.

    Attributes:
        owners: The span that owns a node, by id.
    """

    def __init__(
        self, module: Module, make: Callable[..., Line], names: UserNames | None = None
    ) -> None:
        super().__init__()
        self._module = module
        self._node = finder(module)
        self.owners = owners(module)
        self._make, self._names = make, names

    def owner(self, ident: str) -> str:
        """Returns the name of the source line that owns a node; "" for none."""
        span = self.owners.get(ident)
        return str(span) if span else ""

    def _value(self, key: str) -> Line:
        called = (self._names.results_of(key),) if self._names else ()
        return self._make(self._node(key), self.owner(key), *called)

    def at(self, region: Region, step: int) -> Line:
        """Returns the line of a node by region and step, without a look-up of its id."""
        node = region.nodes[step]
        line = self._kept.get(node.id)
        if line is None:
            called = (self.results(region.name, step),) if self._names else ()
            line = self._kept[node.id] = self._make(node, self.owner(node.id), *called)
        return line

    def called(self, region: str) -> Mapping[int, str]:
        """Returns what the user's code calls the values of a region, by number."""
        return self._names.of(region) if self._names else {}

    def results(self, region: str, step: int) -> Sequence[str]:
        """Returns what the user's code calls a step's results, "" for one without a name."""
        return self._names.results(region, step) if self._names else ()

    def __iter__(self) -> Iterator[str]:
        return (node.id for node in self._module.nodes())

    def __len__(self) -> int:
        return self._module.size
