"""Indices that were out of bounds in one run."""

from dataclasses import dataclass

from jaxlens.taps.primitives import Path


@dataclass(frozen=True, slots=True)
class IndexOutside:
    """An equation whose index was out of bounds, at its first execution of this kind.

    Attributes:
        path: The equation.
        effect: What JAX did: "clamped", "dropped", "filled", "zeros" (of `one_hot`), or "cut": by
            a `size`.
        index: The first such index, as the program computed it before negative ones were wrapped;
            of what is cut, the number of elements.
        window: The number of elements from there that it reads or writes.
        size: The size of the axis.
        count: The number of such indices in all executions.
        iterations: Iterations of the loops around it, from 0, the outermost first.
    """

    path: Path
    effect: str
    index: int
    window: int
    size: int
    count: int
    iterations: tuple[int, ...]
