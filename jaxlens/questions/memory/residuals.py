"""Finds the residuals of autodiff in a jaxpr: forward values that the backward pass reads.

JAX writes `transpose(...)` into the name stack of every equation of a backward pass. A residual is
a value that such an equation reads and an equation outside of the backward pass computes. It stays
in memory until it is read, unless XLA recomputes it. The residuals of a scan are arrays with a row
per trip. Inputs that the backward pass reads are none, because they stay in memory anyway.
Values that a backward pass recomputes (`jax.checkpoint`) are not residuals.

    a = sin x     name stack "jvp()"
    b = mul g a   name stack "transpose(jvp())": a is a residual
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.graph import Module, Node, Span, Type

_BACKWARD = "transpose("
_DEEP = 1_000  # nested bodies that a value is traced into


@dataclass(frozen=True, slots=True)
class Residual:
    """One residual.

    Attributes:
        name: Its variable in the jaxpr.
        type: Its type, all trips of a scan together.
        bytes: Its size; None where a dimension is symbolic.
        id: The equation that it is a result of.
        maker: The equation that computes it, inside scans and calls; `id` where it is the same.
        opcode: The primitive of `maker`.
        owner: The line that owns `maker`.
        trips: Number of rows that a scan stacks in it; 0 for none.
    """

    name: str
    type: Type
    bytes: int | None
    id: str
    maker: str
    opcode: str
    owner: Span | None
    trips: int

    @property
    def line(self) -> str:
        """The line as text, "cell 3:4"; "" where unknown."""
        return str(self.owner or "")


@dataclass(frozen=True, slots=True)
class Saved:
    """The residuals of a program.

    Attributes:
        residuals: The residuals, largest first.
        backward: Number of equations of the backward passes, without those of their bodies.
    """

    residuals: tuple[Residual, ...]
    backward: int

    @property
    def bytes(self) -> int:
        """Bytes of the residuals, without those of unknown size."""
        return sum(residual.bytes or 0 for residual in self.residuals)


def saved(capture: Capture) -> Saved:
    """Returns the residuals of a capture; none for a program without a jaxpr."""
    try:
        module = capture.jaxpr.module
    except UnavailableError:
        return Saved((), 0)
    return saved_in(module)


def saved_in(module: Module) -> Saved:
    """Returns the residuals of a jaxpr, in time linear in its size."""
    residuals: list[Residual] = []
    backward = 0
    pending, visited = [module.entry], {module.entry}
    for name in pending:
        region = module.regions[name]
        equations = {value.name: node for node in region.nodes for value in node.results}
        operands: dict[str, None] = {}  # of the backward pass; an ordered set
        for node in region.nodes:
            if _BACKWARD in node.scope:
                backward += 1
                operands.update(dict.fromkeys(node.operands))
                continue
            for body in node.regions:
                if body not in visited:
                    visited.add(body)
                    pending.append(body)
        for value in operands:
            if value in equations and _BACKWARD not in equations[value].scope:
                residuals.append(_residual(module, equations[value], value))
    residuals.sort(key=lambda residual: -(residual.bytes or 0))
    return Saved(tuple(residuals), backward)


def _residual(module: Module, node: Node, name: str) -> Residual:
    index, value = next((n, v) for n, v in enumerate(node.results) if v.name == name)
    is_row = node.opcode == "scan" and index >= int(node.attrs.get("num_carry", 0))
    maker = _innermost(module, node, index)
    return Residual(
        name,
        value.type,
        value.type.bytes,
        node.id,
        maker.id,
        maker.opcode,
        maker.owner or node.owner,
        int(node.attrs["length"]) if is_row else 0,
    )


def _innermost(module: Module, node: Node, index: int) -> Node:
    """Returns the equation that computes a result, inside the bodies that the equation calls."""
    for _ in range(_DEEP):
        inner = next(_inner(module, node, index), None)
        if inner is None:
            break
        node, index = inner
    return node


def _inner(module: Module, node: Node, index: int) -> Iterator[tuple[Node, int]]:
    """Yields the equation in each body that computes the body's result, and the result's index."""
    for body in (module.regions[name] for name in node.regions):
        if index < len(body.results):
            for equation in body.nodes:
                names = [value.name for value in equation.results]
                if body.results[index] in names:
                    yield equation, names.index(body.results[index])
