"""What autodiff keeps from the forward pass for the backward pass, from the jaxpr alone.

JAX writes `transpose(...)` into the name stack of every equation of a backward pass. A residual is
a value that such an equation reads and another one made: until then it has to stay in memory,
unless the compiler finds that computing it again is cheaper. What a scan saves is one array with a
row a trip. Inputs that the backward pass reads are listed apart: they stay anyway. What a backward
pass computes again (`jax.checkpoint`) is no residual.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.graph import Module, Node, Region, Span, Type

_BACKWARD = "transpose("
_DEEP = 1_000  # bodies that a value is followed into


@dataclass(frozen=True, slots=True)
class Residual:
    """One value that is kept.

    Attributes:
        name: What the jaxpr calls it.
        type: Its type, all trips of a scan together.
        bytes: Its size; None where a dimension is symbolic.
        id: The equation that gives it, in the body where it is kept.
        maker: The equation that computes it, inside scans and calls; `id` where it is the same.
        opcode: The maker's primitive.
        owner: The line that the maker belongs to.
        trips: Rows that a scan stacked in it; 0 for none.
        region: The body where it is kept: the program's, or that of a loop round the gradient.
    """

    name: str
    type: Type
    bytes: int | None
    id: str
    maker: str
    opcode: str
    owner: Span | None
    trips: int
    region: str

    @property
    def line(self) -> str:
        """ "cell 3:4", or "" where no line is known."""
        return str(self.owner or "")


@dataclass(frozen=True, slots=True)
class Saved:
    """All that is kept.

    Attributes:
        residuals: Values, largest first.
        inputs: Names and types of inputs of the differentiated bodies that are read again.
        backward: How many equations the backward passes have, their bodies' left out.
    """

    residuals: tuple[Residual, ...]
    inputs: tuple[tuple[str, Type], ...]
    backward: int

    @property
    def bytes(self) -> int:
        """Bytes of the residuals; those of unknown size are left out."""
        return sum(one.bytes or 0 for one in self.residuals)


def saved(capture: Capture) -> Saved:
    """What the backward passes of a capture read; see the module.

    Nothing is known of a program that was opened from a later stage than the jaxpr.
    """
    try:
        module = capture.jaxpr.module
    except UnavailableError:
        return Saved((), (), 0)
    return saved_in(module)


def saved_in(module: Module) -> Saved:
    """The same for a jaxpr, in time linear in its size."""
    residuals: list[Residual] = []
    inputs: list[tuple[str, Type]] = []
    backward = 0
    pending, seen = [module.entry], {module.entry}
    for name in pending:
        region = module.regions[name]
        made = {value.name: node for node in region.nodes for value in node.results}
        given = {value.name: value.type for value in region.parameters}
        kept: dict[str, None] = {}
        for node in region.nodes:
            if _BACKWARD in node.scope:
                backward += 1
                kept.update(dict.fromkeys(node.operands))
                continue
            for inner in node.regions:
                if inner not in seen:
                    seen.add(inner)
                    pending.append(inner)
        for value in kept:
            if value in given:
                inputs.append((value, given[value]))
            elif value in made and _BACKWARD not in made[value].scope:
                residuals.append(_residual(module, region, made[value], value))
    residuals.sort(key=lambda one: -(one.bytes or 0))
    return Saved(tuple(residuals), tuple(inputs), backward)


def _residual(module: Module, region: Region, node: Node, name: str) -> Residual:
    index, value = next((n, v) for n, v in enumerate(node.results) if v.name == name)
    *_, maker = _makers(module, node, index)
    trips = int(node.attrs["length"]) if node.opcode == "scan" and _stacks(node, index) else 0
    owner = maker.owner or node.owner
    return Residual(
        name,
        value.type,
        value.type.bytes,
        node.id,
        maker.id,
        maker.opcode,
        owner,
        trips,
        region.name,
    )


def _stacks(node: Node, index: int) -> bool:
    return index >= int(node.attrs.get("num_carry", 0))


def _makers(module: Module, node: Node, index: int) -> Iterator[Node]:
    """The equation, and those inside its body that give the same result, from the outside in."""
    for _ in range(_DEEP):
        yield node
        found = None
        for name in node.regions:
            body = module.regions[name]
            if index < len(body.results):
                found = next((n for n in body.nodes if _gives(n, body.results[index])), None)
            if found is not None:
                wanted = body.results[index]
                break
        if found is None:
            return
        node = found
        index = [value.name for value in node.results].index(wanted)


def _gives(node: Node, name: str) -> bool:
    return any(value.name == name for value in node.results)
