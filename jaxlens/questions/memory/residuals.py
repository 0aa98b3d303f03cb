"""Finds the residuals of autodiff in a jaxpr: forward values that the backward pass reads.

JAX writes `transpose(...)` into the name stack of every equation of a backward pass. A residual is
a value that such an equation reads and an equation outside of the backward pass computes. It stays
in memory until it is read, unless XLA recomputes it. The residuals of a scan are arrays with a row
per trip. Inputs that the backward pass reads are none, because they stay in memory anyway.
Values that a backward pass recomputes (`jax.checkpoint`) are not residuals.

    a = sin x     name stack "jvp()"
    b = mul g a   name stack "transpose(jvp())": a is a residual
"""

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
    """

    name: str
    type: Type
    bytes: int | None
    id: str
    maker: str
    opcode: str
    owner: Span | None

    @property
    def line(self) -> str:
        """The line as text, "cell 3:4"; "" where unknown."""
        return str(self.owner or "")


@dataclass(frozen=True, slots=True)
class Residuals:
    """The residuals of a program.

    Attributes:
        values: The residuals, largest first.
        is_differentiated: Whether the program has a backward pass.
    """

    values: tuple[Residual, ...]
    is_differentiated: bool

    @property
    def bytes(self) -> int:
        """Bytes of the residuals, without those of unknown size."""
        return sum(residual.bytes or 0 for residual in self.values)


def residuals_of(capture: Capture) -> Residuals:
    """Returns the residuals of a capture; none for a program without a jaxpr."""
    try:
        module = capture.jaxpr.module
    except UnavailableError:
        return Residuals((), False)
    return residuals_in(module)


def residuals_in(module: Module) -> Residuals:
    """Returns the residuals of a jaxpr, in time linear in its size."""
    residuals: list[Residual] = []
    is_differentiated = False
    pending, visited = [module.entry], {module.entry}
    for name in pending:
        region = module.regions[name]
        equations = {value.name: node for node in region.nodes for value in node.results}
        operands: dict[str, None] = {}  # of the backward pass; an ordered set
        for node in region.nodes:
            if _BACKWARD in node.scope:
                is_differentiated = True
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
    return Residuals(tuple(residuals), is_differentiated)


def _residual(module: Module, node: Node, name: str) -> Residual:
    index, value = next((n, v) for n, v in enumerate(node.results) if v.name == name)
    maker = _innermost(module, node, index)
    return Residual(
        name,
        value.type,
        value.type.bytes,
        node.id,
        maker.id,
        maker.opcode,
        maker.owner or node.owner,
    )


def _innermost(module: Module, node: Node, index: int) -> Node:
    """Returns the equation that computes a result, inside the bodies that the equation calls."""
    for _ in range(_DEEP):
        bodies = (module.regions[name] for name in node.regions)
        inner = (
            (equation, n)
            for body in bodies
            if index < len(body.results)
            for equation in body.nodes
            for n, value in enumerate(equation.results)
            if value.name == body.results[index]
        )
        found = next(inner, None)
        if found is None:
            break
        node, index = found
    return node
