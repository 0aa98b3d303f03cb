"""Finds arguments that no result depends on, and those whose gradient is zero by construction.

A walk back from the loss through floats. It stops at what JAX gives no gradient: `stop_gradient`,
rounding, signs, comparisons and integers. In a program that computes a gradient, JAX writes zeros
for each such argument: without these nothing is said.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.facts import root_name
from jaxlens.ir.graph import Module, Node, Region, Span, Type
from jaxlens.links.live_equations import Place, ValueFlow

_CUTS = frozenset("stop_gradient round floor ceil sign nextafter".split())
_OWN_RULE = ("custom_jvp_call", "custom_vjp_call")


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


def zero_gradients(module: Module, names: Sequence[str]) -> Iterator[ZeroGradient]:
    """Yields the arguments whose gradient is zero.

    Args:
        module: The jaxpr.
        names: What the parameters are called; those of one argument begin alike.
    """
    walk, main = _Walk(module), module.body()
    roots: dict[str, dict[int, Type]] = defaultdict(dict)
    for n, value in enumerate(main.parameters):
        if is_float(value.type):
            roots[root_name(names[n])][n] = value.type
    if any("jvp(" in node.scope for node in module.nodes()):
        for region in walk.flow.regions.values():
            yield from _of_gradient(walk, region, roots)
        return
    kinds = [walk.types.get((main.name, name)) for name in main.results]
    if len(kinds) == 1 and kinds[0] and not kinds[0].shape and is_float(kinds[0]):
        first = next(iter(roots.values()), {})
        cuts = walk.without(first, [(main.name, main.results[0])])
        if len(cuts) < len(first):  # else a metric: nobody differentiates it
            yield from (ZeroGradient(n, cut, "") for n, cut in cuts.items() if cut)


def _of_gradient(
    walk: "_Walk", region: Region, roots: Mapping[str, Mapping[int, Type]]
) -> Iterator[ZeroGradient]:
    inside = [node for node in region.nodes if "jvp(" in node.scope]
    forward = [node for node in inside if "transpose(" not in node.scope]
    lines: set[Span | None] = {span for node in forward for span in node.spans[1:]}
    lines |= {None} if region.name == walk.module.entry else set()  # it is all the gradient
    read, read_forward = ({name for node in nodes for name in node.operands}
                          for nodes in (inside, forward))  # fmt: skip
    zeros = [node for node in region.nodes if _is_zeros(node, lines) and node.name not in read]
    made = [value.name for node in forward for value in node.results]
    ends = [(region.name, name) for name in made if name not in read_forward]
    kinds = Counter(node.type for node in zeros)
    cuts = (
        [(walk.without(root, ends), root) for root in roots.values()] if zeros and forward else []
    )
    fits = [(each, root) for each, root in cuts if Counter(root[n] for n in each) == kinds]
    if len(fits) == 1:  # else it is not known which
        ((parameters, types),) = fits
        for n, cut in parameters.items():
            yield ZeroGradient(n, cut, next(node.id for node in zeros if node.type == types[n]))


def _is_zeros(node: Node, lines: set[Span | None]) -> bool:
    zero = node.opcode == "broadcast_in_dim" and node.operands[0].startswith("0.0:")
    return zero and not node.scope and next(iter(node.spans), None) in lines


def _reached(starts: Iterable[Place], following: Callable[[Place], Iterable[Place]]) -> set[Place]:
    pending, reached = list(starts), set[Place]()
    while pending:
        place = pending.pop()
        if place not in reached:
            reached.add(place)
            pending += following(place)
    return reached


class _Walk:
    def __init__(self, module: Module) -> None:
        self.module, self.flow = module, ValueFlow(module)
        self.types = {
            (region.name, name): kind
            for region in self.flow.regions.values()
            for name, kind in region.types().items()
        }

    def without(self, parameters: Iterable[int], ends: Sequence[Place]) -> dict[int, str]:
        """Returns the parameters with no gradient from the ends, with what cuts it first."""
        after: dict[Place, list[tuple[Place, str, bool]]] = defaultdict(list)

        def backward(place: Place) -> Iterator[Place]:
            for before, node, through in self.steps(place):
                after[before].append((place, node, through))
                yield before

        def forward(place: Place) -> Iterator[Place]:
            return (reader for reader, _, through in after[place] if through)

        _reached(ends, backward)
        found, main = {}, self.module.body()
        for n in parameters:
            reached = _reached([(main.name, main.parameters[n].name)], forward)
            if reached.isdisjoint(ends):
                cuts = {node for at in reached for _, node, through in after[at] if not through}
                found[n] = min(cuts, key=lambda ident: int(ident[1:]), default="")
        return found

    def steps(self, place: Place) -> Iterator[tuple[Place, str, bool]]:
        """Yields what a variable is computed from, by which equation, whether by a derivative."""
        for bound in self.flow.outer(place):
            yield bound, "", True
        if (made := self.flow.makers.get(place)) is None:
            return
        region, node = made
        smooth = node.opcode not in _CUTS and is_float(self.types[place])
        whole = node.opcode in _OWN_RULE
        operands = ((region.name, name) for name in node.operands)
        for before in operands if whole else self.flow.behind(region, node, place[1]):
            if (kind := self.types.get(before)) is not None:  # no literal
                yield before, node.id, smooth and is_float(kind)
