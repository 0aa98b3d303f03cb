"""Groups what was measured of equations by module and pass, for a table of a lens."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from jaxlens.links import name_stack
from jaxlens.report import Cell


class OfModule(Protocol):
    """What was measured of an equation."""

    @property
    def path(self) -> tuple[str, ...]:
        """The equation, within its calls."""

    @property
    def module(self) -> tuple[str, ...]:
        """The module that it belongs to, that which this is in first; () for none."""

    @property
    def backward(self) -> bool:
        """Whether a derivative's transpose made it."""


_T = TypeVar("_T", bound=OfModule)


def grouped(rows: Iterable[_T]) -> list[list[_T]]:
    """Returns rows by module and pass, in the order of execution; [] with fewer than 2 modules."""
    groups: dict[object, list[_T]] = {}
    for row in rows:
        groups.setdefault((row.module, row.backward), []).append(row)
    modules = {group[0].module for group in groups.values()}
    return list(groups.values()) if len(modules - {()}) > 1 else []


def cells(group: Sequence[OfModule]) -> tuple[Cell, Cell]:
    """Returns the cells of a group's module and pass."""
    ids = tuple(dict.fromkeys(row.path[-1] for row in group))
    first = group[0]
    return Cell(module_text(first), ids=ids), Cell("backward" if first.backward else "")


def module_text(row: OfModule) -> str:
    """Returns `Model / Block_0 / Dense_1`, or `model.blocks[0].dense`."""
    return name_stack.module_text(row.module) or "no module"
