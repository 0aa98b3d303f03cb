"""Finds arguments that no result depends on, and those whose gradient is zero by construction.

A walk back from the loss through floats. It stops at what JAX gives no gradient: `stop_gradient`,
rounding, signs, comparisons and integers. In a program that computes a gradient, JAX writes zeros
for each such argument: without these nothing is said.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jaxlens.ir.facts import root_name
from jaxlens.ir.graph import Module, Node, Region, Span, Type
from jaxlens.ir.jaxpr.bodies import running
from jaxlens.links.live_equations import Place, ValueFlow

_CUTS = frozenset("stop_gradient round floor ceil sign nextafter".split())
_OWN_RULE = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
_ZERO = "0.0:"


@dataclass(frozen=True, slots=True)
class ZeroGradient:
    """An argument whose gradient is zero by construction.

    Attributes:
        parameter: The index of the program's parameter.
        cut: The equation that lets no gradient through; "" if the loss does not read it.
        zeros: The equation that makes the zeros; "" in a program that computes no gradient.
    """

    parameter: int
    cut: str
    zeros: str


def is_float(kind: Type) -> bool:
    """Whether values of a type can have a gradient."""
    return kind.dtype.startswith(("f", "bf", "c"))


def unread(module: Module, live: frozenset[str]) -> tuple[int, ...]:
    """Returns the parameters that no live equation reads and that are no result."""
    main = module.body()
    read = {name for node in main.nodes if node.id in live for name in node.operands}
    read.update(main.results)
    return tuple(n for n, value in enumerate(main.parameters) if value.name not in read)


def zero_gradients(module: Module, names: Sequence[str]) -> tuple[ZeroGradient, ...]:
    """Returns the arguments whose gradient is zero.

    Args:
        module: The jaxpr.
        names: What the parameters are called; those of the same argument begin alike.
    """
    walk = _Walk(module)
    main = module.body()
    roots: dict[str, list[int]] = defaultdict(list)
    for n, value in enumerate(main.parameters):
        if is_float(value.type):
            roots[root_name(names[n])].append(n)
    forward = [node for node in module.nodes() if "jvp(" in node.scope]
    if forward:
        return tuple(_of_gradient(walk, roots))
    kinds = [walk.types.get((main.name, name)) for name in main.results]
    if len(kinds) != 1 or kinds[0] is None or kinds[0].shape or not is_float(kinds[0]):
        return ()
    first = next(iter(roots.values()), [])
    zeros = walk.without(first, [(main.name, main.results[0])])
    if len(zeros) == len(first):  # a metric: nobody differentiates it
        return ()
    cuts = [(n, cut) for n, cut in zeros.items() if cut]
    return tuple(ZeroGradient(n, cut, "") for n, cut in cuts)


def _of_gradient(walk: "_Walk", roots: Mapping[str, Sequence[int]]) -> Iterator[ZeroGradient]:
    for region in walk.flow.regions.values():
        forward = [n for n in region.nodes if "jvp(" in n.scope and "transpose(" not in n.scope]
        calls: set[Span | None] = {span for node in forward for span in node.spans[1:]}
        if region.name == walk.module.entry:
            calls.add(None)  # the whole program is the gradient
        read = {name for node in forward for name in node.operands}
        inside = {n for node in region.nodes if "jvp(" in node.scope for n in node.operands}
        zeros = [
            node
            for node in region.nodes
            if _is_zeros(node, calls) and node.results[0].name not in inside
        ]
        if not zeros or not forward:
            continue
        ends = [
            (region.name, value.name)
            for node in forward
            for value in node.results
            if value.name not in read
        ]
        types = walk.flow.regions[walk.module.entry].parameters
        wanted = Counter(node.type for node in zeros)
        found = [walk.without(root, ends) for root in roots.values()]
        fits = [each for each in found if Counter(types[n].type for n in each) == wanted]
        if len(fits) == 1:  # else it is not known which
            for n, cut in fits[0].items():
                maker = next(node.id for node in zeros if node.type == types[n].type)
                yield ZeroGradient(n, cut, maker)


def _is_zeros(node: Node, calls: set[Span | None]) -> bool:
    zero = node.opcode == "broadcast_in_dim" and node.operands[0].startswith(_ZERO)
    return zero and not node.scope and next(iter(node.spans), None) in calls


@dataclass(frozen=True, slots=True)
class _Walk:
    module: Module
    flow: ValueFlow = field(init=False)
    types: Mapping[Place, Type] = field(init=False)

    def __post_init__(self) -> None:
        flow = ValueFlow(self.module)
        types = {
            (region.name, value.name): value.type
            for region in flow.regions.values()
            for values in (region.parameters, *(node.results for node in region.nodes))
            for value in values
        }
        object.__setattr__(self, "flow", flow)
        object.__setattr__(self, "types", types)

    def without(self, parameters: Iterable[int], ends: Sequence[Place]) -> dict[int, str]:
        """Returns the parameters with no gradient from the ends, with the equation that cuts it."""
        main = self.module.body()
        readers: dict[Place, list[tuple[Place, str, bool]]] = defaultdict(list)
        smooth, visited = set(ends), set[Place]()
        pending = list(ends)
        while pending:  # everything that the ends depend on
            place = pending.pop()
            if place in visited:
                continue
            visited.add(place)
            for before, node, through in self.steps(place):
                readers[before].append((place, node, through))
                pending.append(before)
        pending = list(ends)
        while pending:  # what a gradient reaches
            place = pending.pop()
            for before, _, through in self.steps(place):
                if through and before not in smooth:
                    smooth.add(before)
                    pending.append(before)
        found = {}
        for n in parameters:
            start = main.name, main.parameters[n].name
            if start not in smooth:
                found[n] = self._cut(start, readers)
        return found

    def _cut(self, start: Place, readers: Mapping[Place, Sequence[tuple[Place, str, bool]]]) -> str:
        """Returns the first equation on the way from a parameter that lets no gradient through."""
        pending, visited, cuts = [start], set[Place](), set[str]()
        while pending:
            place = pending.pop()
            if place in visited:
                continue
            visited.add(place)
            for after, node, through in readers.get(place, ()):
                if through:
                    pending.append(after)
                else:
                    cuts.add(node)
        return min(cuts, key=lambda ident: int(ident[1:]), default="")

    def steps(self, place: Place) -> Iterator[tuple[Place, str, bool]]:
        """Yields what a variable is computed from, by which equation, whether by a derivative."""
        for bound in self.flow.outer(place):
            yield bound, "", True
        made = self.flow.makers.get(place)
        if made is None:
            return
        region, node = made
        smooth = node.opcode not in _CUTS and is_float(self.types[place])
        for before in self._before(region, node, place[1]):
            kind = self.types.get(before)
            if kind is not None:  # no literal
                yield before, node.id, smooth and is_float(kind)

    def _before(self, region: Region, node: Node, name: str) -> Iterator[Place]:
        if node.opcode in _OWN_RULE or not running(node):
            yield from ((region.name, operand) for operand in node.operands)
        else:
            yield from self.flow.behind(region, node, name)
