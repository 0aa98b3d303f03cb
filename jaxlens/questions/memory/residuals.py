"""Finds the residuals of autodiff in a jaxpr: forward values that the backward pass reads.

JAX writes `transpose(...)` into the name stack of every equation of a backward pass. A residual is
a value that such an equation reads and an equation outside of the backward pass computes. It stays
in memory until it is read, unless XLA recomputes it. The residuals of a scan are arrays with a row
per trip. Inputs that the backward pass reads are none, because they stay in memory anyway.
Values that a backward pass recomputes (`jax.checkpoint`) are not residuals.

    a = sin x     name stack "jvp()"
    b = mul g a   name stack "transpose(jvp())": a is a residual
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.graph import Module, Node, Span, Type

_BACKWARD = "transpose("
_KEEPS = ("reduce_precision", "device_put")  # what jax.checkpoint puts after a value that it keeps
Makers = Callable[[str], Mapping[str, Node]]
"""Returns the equations of a body by the names of the values that they make."""


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
        label: The name that `checkpoint_name` gave the value; "" where it gave none.
    """

    name: str
    type: Type
    bytes: int | None
    id: str
    maker: str
    opcode: str
    owner: Span | None
    label: str = ""

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

    @cache
    def makers(body: str) -> dict[str, Node]:
        nodes = module.regions[body].nodes
        return {value.name: node for node in nodes for value in node.results}

    read: dict[str, dict[str, None]] = {}  # by the backward pass, by body; ordered sets
    is_differentiated = False
    reached = {module.entry}  # outside of the backward pass
    for region in module.regions.values():  # callers before callees
        if region.name not in reached:
            continue
        operands = read[region.name] = {}
        for node in region.nodes:
            if _BACKWARD in node.scope:
                is_differentiated = True
                operands.update(dict.fromkeys(node.operands))
            elif node.regions:
                reached.update(node.regions)
    residuals = [
        _residual(module, makers, body, maker, value)
        for body, operands in read.items()
        for value in operands
        if (maker := makers(body).get(value)) and _BACKWARD not in maker.scope
    ]
    residuals.sort(key=lambda residual: -(residual.bytes or 0))
    return Residuals(tuple(residuals), is_differentiated)


def _residual(module: Module, makers: Makers, body: str, node: Node, name: str) -> Residual:
    index = _index(node, name)
    value, maker = node.results[index], node
    while True:  # into the bodies that compute it
        bodies = (module.regions[body] for body in maker.regions)
        results = ((body.name, body.results[index]) for body in bodies if index < len(body.results))
        inner = next((r for r in results if r[1] in makers(r[0])), None)
        if inner is None:
            break
        body = inner[0]
        maker = makers(body)[inner[1]]
        index = _index(maker, inner[1])
    named: Node | None = maker
    while named and named.opcode in _KEEPS:
        named = makers(body).get(next(iter(named.operands), ""))
    label = named.attrs.get("name", "") if named and named.opcode == "name" else ""
    own = maker.id, maker.opcode, maker.owner or node.owner
    return Residual(name, value.type, value.type.bytes, node.id, *own, label)


def _index(node: Node, name: str) -> int:
    return [value.name for value in node.results].index(name)
