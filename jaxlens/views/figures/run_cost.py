"""Estimates the flops of a run of equations, as the cost of a program counts them."""

from functools import cached_property
from itertools import accumulate

from jaxlens.ir.graph import Module
from jaxlens.program.counted import EquationSums


class RunCosts:
    """The flops of runs of a jaxpr's equations, those of the bodies that they call included.

    Args:
        module: A jaxpr.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        # By region: the flops, and the number of uncounted steps, before each step and at the end.
        self._before: dict[str, tuple[list[int], list[int]]] = {}

    @cached_property
    def _sums(self) -> EquationSums:
        return EquationSums(self._module, {})

    def flops(self, region: str, low: int, high: int) -> int | None:
        """Returns the flops of the steps `low` to before `high`; None where some are unknown."""
        if region not in self._before:
            costs = self._sums.steps(region)
            known = accumulate((cost or 0 for cost in costs), initial=0)
            unknown = accumulate((cost is None for cost in costs), initial=0)
            self._before[region] = list(known), list(unknown)
        known_before, unknown_before = self._before[region]
        if unknown_before[high] != unknown_before[low]:
            return None
        return known_before[high] - known_before[low]
