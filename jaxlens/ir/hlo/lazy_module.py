"""A Module of HLO text whose computations are read when first looked at."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxlens.ir.graph import Module, Region
from jaxlens.ir.lazy import fill

Body = Callable[[], tuple[Region, tuple[str, ...]]]
"""Reads one computation: the region, and the lines in it that are not understood."""


class Computation(Region):
    """A Region whose parameters, nodes and results are read when first looked at."""

    __slots__ = ("_body", "_unknown")
    _body: Body
    _unknown: tuple[str, ...]

    def __getattr__(self, name: str) -> Any:
        return fill(self, name, _REGION)


class ComputationModule(Module):
    """A Module of such regions; to ask for `unknown` is to read them all."""

    __slots__ = ("_header", "_printed")
    _header: tuple[str, ...]
    _printed: Sequence[str]

    def __getattr__(self, name: str) -> Any:
        return fill(self, name, _MODULE)


def computation(name: str, body: Body) -> Computation:
    """A region that `body` reads."""
    region: Computation = object.__new__(Computation)
    _set(region, name=name, kind="computation", _body=body)
    return region


def module(
    name: str,
    stage: str,
    entry: str,
    regions: Mapping[str, Region],
    attrs: Mapping[str, str],
    header: Sequence[str],
    printed: Sequence[str],
) -> Module:
    """A module of regions that `computation` made.

    Args:
        name: What XLA calls it.
        stage: Its stage.
        entry: Name of the entry.
        regions: In reading order.
        attrs: The module's own attributes.
        header: Lines before the first computation that are not understood.
        printed: Names of the regions in printed order, the order of `unknown`.
    """
    made: ComputationModule = object.__new__(ComputationModule)
    _set(made, name=name, stage=stage, entry=entry, regions=regions, attrs=attrs)
    _set(made, _header=tuple(header), _printed=printed)
    return made


def _set(frozen: object, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(frozen, name, value)


def _fill(region: Computation) -> Region:
    found, unknown = region._body()
    _set(region, parameters=found.parameters, nodes=found.nodes, results=found.results)
    _set(region, _unknown=unknown)
    return found


def _unknown(whole: ComputationModule) -> tuple[str, ...]:
    found = list(whole._header)
    for name in whole._printed:
        region = whole.regions[name]
        if isinstance(region, Computation):
            found += region._unknown
    return tuple(found)


_REGION: Mapping[str, Callable[[Computation], object]] = {
    "parameters": lambda region: _fill(region).parameters,
    "nodes": lambda region: _fill(region).nodes,
    "results": lambda region: _fill(region).results,
    "_unknown": lambda region: (_fill(region), region._unknown)[1],
}
_MODULE: Mapping[str, Callable[[ComputationModule], object]] = {"unknown": _unknown}
