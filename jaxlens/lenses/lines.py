"""Which line of Python owns which nodes: the base of every tint over the user's code.

A node belongs to the innermost of its frames that is the user's (`Node.owner`). A node
without frames belongs to the line of the one call that reaches its body; where several
lines reach it, to none, and the count of such nodes is given.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxlens.ir.graph import Module, Node, Span

_BACKWARD = "transpose("

Spot = tuple[str, int]
"""A line of Python: `Span.key` (`Span.file` where that is unknown) and line number."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Nodes by line.

    Attributes:
        stage: The stage whose ids these are.
        owners: The span that owns a node, by node id; a node that no line owns is missing.
        own: Node ids by the line that owns them, in program order.
        through: How many nodes have the line anywhere on their stack, calls of bodies
            counted in.
        made: Node ids by library line, where the innermost frame is a library's.
        names: `Span.file` by `Span.key`, in the order of first mention.
        total: Number of nodes.
        backward: How many of the nodes that a line owns the backward pass added: JAX marks
            their scope with `transpose(...)`.
    """

    stage: str
    owners: Mapping[str, Span]
    own: Mapping[Spot, tuple[str, ...]]
    through: Mapping[Spot, int]
    made: Mapping[Spot, tuple[str, ...]]
    names: Mapping[str, str]
    total: int
    backward: Mapping[Spot, int] = field(default_factory=dict)

    @property
    def unowned(self) -> int:
        """How many nodes no line owns."""
        return self.total - len(self.owners)


def spot(span: Span) -> Spot:
    """The line where a span begins."""
    return span.key or span.file, span.line


def owners(module: Module) -> dict[str, Span]:
    """The span that owns each node, by id; nodes that no line owns are left out."""
    found: dict[str, Span] = {}
    callers = _callers(module)
    for region in module.regions.values():  # callers come first
        lines = {spot(s): s for c in callers.get(region.name, ()) if (s := found.get(c.id))}
        missing = any(c.id not in found for c in callers.get(region.name, ()))
        handed = next(iter(lines.values())) if len(lines) == 1 and not missing else None
        for node in region.nodes:
            owner = node.owner or handed
            if owner is not None:
                found[node.id] = owner
    return found


def lines(module: Module) -> Lines:
    """Attributes every node of a module to lines of Python."""
    found = owners(module)
    own: dict[Spot, list[str]] = {}
    made: dict[Spot, list[str]] = {}
    names: dict[str, str] = {}
    backward: Counter[Spot] = Counter()
    for node in module.nodes():
        owner = found.get(node.id)
        for span in (*((owner,) if owner else ()), *node.spans):
            names.setdefault(span.key or span.file, span.file)
        if owner is not None:
            own.setdefault(spot(owner), []).append(node.id)
            backward[spot(owner)] += _BACKWARD in node.scope
        if node.spans and node.spans[0].library:
            made.setdefault(spot(node.spans[0]), []).append(node.id)
    return Lines(
        module.stage,
        found,
        {line: tuple(ids) for line, ids in own.items()},
        _through(module, found),
        {line: tuple(ids) for line, ids in made.items()},
        names,
        sum(len(region.nodes) for region in module.regions.values()),
        +backward,
    )


def _callers(module: Module) -> dict[str, list[Node]]:
    callers: dict[str, list[Node]] = {}
    for node in module.nodes():
        for inner in node.regions:
            callers.setdefault(inner, []).append(node)
    return callers


def _through(module: Module, found: Mapping[str, Span]) -> Counter[Spot]:
    """Counts a node for each line on its stack and on the stacks of what calls its region."""
    stacks: dict[tuple[Span, ...], frozenset[Spot]] = {}
    around: dict[str, frozenset[Spot]] = {}
    count: Counter[Spot] = Counter()
    for region in module.regions.values():
        outside = around.get(region.name, frozenset())
        count.update(dict.fromkeys(outside, len(region.nodes)))
        for node in region.nodes:
            spans = node.spans or ((found[node.id],) if node.id in found else ())
            on_stack = stacks.get(spans)
            if on_stack is None:
                on_stack = stacks[spans] = frozenset(map(spot, spans))
            count.update(on_stack - outside)
            for inner in node.regions:
                around[inner] = around.get(inner, frozenset()) | outside | on_stack
    return count
