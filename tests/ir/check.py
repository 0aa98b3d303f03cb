"""The rules of a legal graph, one function each. The tests of every reader end with `check`.

A module that breaks a rule came from broken text or from a reader's mistake; lenses and
renderers may count on all of them. `ir.graph.check_calls` checks two of them in saved captures.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain

from jaxlens.ir.graph import Module

_HLO = ("hlo", "passes", "optimized")
_UNORDERED = ("llvm", "asm")  # a phi reads values of blocks further down; jumps go anywhere


def check(module: Module) -> list[str]:
    """Checks a module against every rule.

    Returns:
        A sentence for each violation, with its place; empty for a legal module.
    """
    return [broken for rule in _RULES for broken in rule(module)]


def _names(module: Module) -> Iterator[str]:
    """The entry is the first region, regions have their names as keys, and ids are unique."""
    if next(iter(module.regions), None) != module.entry:
        yield f"entry {module.entry!r} is not the first region"
    for name, region in module.regions.items():
        if name != region.name:
            yield f"region {region.name!r} is held as {name!r}"
    for node_id, n in Counter(node.id for node in module.nodes()).items():
        if n > 1:
            yield f"id {node_id!r} stands for {n} nodes"


def _values(module: Module) -> Iterator[str]:
    """Names of values are unique within their region."""
    for region in module.regions.values():
        names = Counter(value.name for node in region.nodes for value in node.results)
        if any(node.opcode == "parameter" for node in region.nodes):
            lost = {value.name for value in region.parameters} - names.keys()
            yield from (f"parameter {n!r} of {region.name!r} is no instruction" for n in lost)
        else:
            names.update(value.name for value in region.parameters)
        for name, n in names.items():
            if n > 1 and name != "_":  # "_" is JAX's name for an unused result
                yield f"{n} values of {region.name!r} are called {name!r}"


def _calls(module: Module) -> Iterator[str]:
    """A region that a node calls exists."""
    for node in module.nodes():
        for name in node.regions:
            if name not in module.regions:
                yield f"{node.id!r} calls {name!r}, which does not exist"


def _order(module: Module) -> Iterator[str]:
    """A region stands after every region that calls it."""
    earlier: set[str] = set()
    for region in module.regions.values():
        earlier.add(region.name)
        for node in region.nodes:
            for name in node.regions:
                if name in earlier:
                    yield f"{name!r} stands before {region.name!r}, which calls it"


def _operands(module: Module) -> Iterator[str]:
    """An operand is defined earlier in its region, or in a region around it, or is a literal.

    A literal has a name that no value has. HLO has no literals and its computations are closed.
    """
    values = _Values(module)
    for region in module.regions.values():
        earlier = {value.name for value in region.parameters}
        for node in region.nodes:
            for operand in node.operands:
                if operand in earlier:
                    continue
                if operand in values.names[region.name]:
                    if module.stage not in _UNORDERED:
                        yield f"{node.id!r} reads {operand!r} before it is made"
                elif not values.outside(operand, region.name):
                    yield f"{node.id!r} reads {operand!r}, which nothing makes"
            earlier.update(value.name for value in node.results)


def _results(module: Module) -> Iterator[str]:
    """What goes out of a region is a value of it, of a region around it, or a literal."""
    values = _Values(module)
    for region in module.regions.values():
        for result in region.results:
            if result not in values.names[region.name] and not values.outside(result, region.name):
                yield f"result {result!r} of {region.name!r} does not exist"


def _hlo_shape(module: Module) -> Iterator[str]:
    """An HLO instruction makes one value, of its own name; a computation has one root."""
    if module.stage not in _HLO:
        return
    for region in module.regions.values():
        if len(region.results) != 1:
            yield f"{region.name!r} has {len(region.results)} roots"
        for node in region.nodes:
            if [value.name for value in node.results] != [node.id]:
                yield f"{node.id!r} does not make one value of its own name"


_RULES = (_names, _values, _calls, _order, _operands, _results, _hlo_shape)


class _Values:
    """The values of a module by region, and the callers of each region.

    Attributes:
        names: Names of parameters and results, by region.
    """

    def __init__(self, module: Module) -> None:
        self.names: dict[str, set[str]] = {}
        self._closed = module.stage in _HLO
        self._callers: defaultdict[str, set[str]] = defaultdict(set)
        for region in module.regions.values():
            values = chain(region.parameters, *(node.results for node in region.nodes))
            self.names[region.name] = {value.name for value in values}
            for node in region.nodes:
                for name in node.regions:
                    self._callers[name].add(region.name)
        self._all_names = set().union(*self.names.values())

    def outside(self, name: str, region: str) -> bool:
        """Whether a name in a region is a literal, or a value of a direct or indirect caller."""
        if self._closed:
            return False
        around, pending = {region}, [region]
        while pending:
            callers = self._callers[pending.pop()] - around
            around |= callers
            pending += callers
        return name not in self._all_names or any(name in self.names[c] for c in around - {region})
