"""Finds the residuals of autodiff in a jaxpr: forward values that the backward pass reads.

JAX writes `transpose(...)` into the name stack of every equation of a backward pass. A residual is
a value that such an equation reads and an equation outside of the backward pass computes. It stays
in memory until it is read, unless XLA recomputes it. The residuals of a scan are arrays with a row
per trip. Inputs that the backward pass reads are listed apart, because they stay in memory anyway.
Values that a backward pass recomputes (`jax.checkpoint`) are not residuals.

    a = sin x     name stack "jvp()"
    b = mul g a   name stack "transpose(jvp())": a is a residual
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.graph import Module, Node, Region, Span, Type

_BACKWARD = "transpose("
_DEEP = 1_000  # nested bodies that a value is traced into


@dataclass(frozen=True, slots=True)
class Residual:
    """One residual.

    Attributes:
        name: Its variable in the jaxpr.
        type: Its type, all trips of a scan together.
        bytes: Its size; None where a dimension is symbolic.
        id: The equation that it is a result of, in `region`.
        maker: The equation that computes it, inside scans and calls; `id` where it is the same.
        opcode: The primitive of `maker`.
        owner: The line that owns `maker`.
        trips: Number of rows that a scan stacks in it; 0 for none.
        region: The body that reads it: the program's, or that of a loop around the gradient.
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
        """The line as text, "cell 3:4"; "" where unknown."""
        return str(self.owner or "")


@dataclass(frozen=True, slots=True)
class Saved:
    """The residuals of a program.

    Attributes:
        residuals: The residuals, largest first.
        inputs: Names and types of the inputs of differentiated bodies that backward passes read.
        backward: Number of equations of the backward passes, without those of their bodies.
    """

    residuals: tuple[Residual, ...]
    inputs: tuple[tuple[str, Type], ...]
    backward: int

    @property
    def bytes(self) -> int:
        """Bytes of the residuals, without those of unknown size."""
        return sum(one.bytes or 0 for one in self.residuals)


def saved(capture: Capture) -> Saved:
    """Returns the residuals of a capture; none for a program without a jaxpr."""
    try:
        module = capture.jaxpr.module
    except UnavailableError:
        return Saved((), (), 0)
    return saved_in(module)


def saved_in(module: Module) -> Saved:
    """Returns the residuals of a jaxpr, in time linear in its size."""
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
    """Yields the equation, then those in its bodies that compute the same result, outer first."""
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
