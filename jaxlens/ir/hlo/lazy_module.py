"""A Module of HLO text whose computations are read when first looked at."""

from collections.abc import Callable

from jaxlens.ir.graph import Region
from jaxlens.ir.lazy import LazyFields


class Computation(LazyFields, Region):
    """A Region whose parameters, nodes and results are read when first looked at.

    Attributes:
        unknown: Lines in it that are not understood.
        _read: Reads it: the region, and those lines.
    """

    __slots__ = ("_read", "unknown")
    unknown: tuple[str, ...]
    _read: Callable[[], tuple[Region, tuple[str, ...]]]
    _makers = {  # noqa: RUF012
        "parameters": lambda region: _fill(region).parameters,
        "nodes": lambda region: _fill(region).nodes,
        "results": lambda region: _fill(region).results,
        "unknown": lambda region: _fill(region).unknown,
    }


def _fill(region: Computation) -> Computation:
    """Sets all fields: whoever asks for one will ask for others."""
    whole, unknown = region._read()
    for name in ("parameters", "nodes", "results"):
        object.__setattr__(region, name, getattr(whole, name))
    object.__setattr__(region, "unknown", unknown)
    return region
