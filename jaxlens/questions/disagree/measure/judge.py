"""Judges whether rounding explains how a compiled program differs from op by op.

The bound is eight times the error of the program op by op against float64, and at least 8 ulps. One
run may be exact by luck, so the program is run op by op some times more, with each inexact result
moved by what rounding may have moved it, of a sum by the square root of its length; twice the
largest error of these is explained too, and so is what a comparison or a branch makes of them.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.questions.disagree.disagreement import CheckedResult
from jaxlens.questions.numerics.measure.run import compiled, difference
from jaxlens.questions.numerics.measure.shadow import (
    ShadowedValue,
    ShadowInterpreter,
    element_errors,
    is_float,
    wide,
)
from jaxlens.questions.numerics.rounding import BITS
from jaxlens.stages.compile.program_text import plain_array
from jaxlens.taps.primitives import MOVES, Path
from jaxlens.taps.refs import bind

_FACTOR = 8.0  # by which a difference exceeds the errors, as numerics has it
_RUNS = 4  # with moved results
_FACTOR_MOVED = 2.0  # likewise, of these
_MOVED = 4.0  # halves of an ulp by which a result is moved at most
_SUMS = ("reduce_sum", "cumsum", "dot_general", "conv_general_dilated", "scatter-add")


class _Moved(ShadowInterpreter):
    """Evaluates a jaxpr op by op, and moves the results that are not exact."""

    def __init__(self, known: Any, inexact: set[Path], seed: int) -> None:
        super().__init__(known, follow=False)
        self.inexact = inexact
        self.random = np.random.default_rng(seed)

    def evaluate_primitive(
        self, eqn: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        if not eqn.outvars:  # a callback, which would show the user values that are moved
            return []
        results = super().evaluate_primitive(eqn, operands, path, iterations)
        for result in results:
            # Types that have no shadow are moved wherever the elements are not the operand's.
            has_shadow, name = str(result.value.dtype) in BITS, eqn.primitive.name
            inexact = path in self.inexact if has_shadow else name not in MOVES
            if is_float(result.value) and (inexact or name in _SUMS):
                result.value = self.moved(eqn, [x.value for x in operands], result.value)
        return results

    def moved(self, eqn: Any, values: Sequence[Any], result: Any) -> Any:
        """Returns a result, each element moved at random."""
        precision: Any = jnp.finfo
        bits = precision(result.dtype).nmant + 1
        exact = wide(result)
        by = np.abs(exact) * 2.0**-bits
        if eqn.primitive.name in _SUMS:
            sizes = [np.size(x) for x in values if is_float(x)]
            terms = max(1.0, (math.prod(sizes) / max(1, exact.size)) ** (1 / len(sizes)))
            (total,) = bind(eqn, [jnp.abs(x).astype(x.dtype) if is_float(x) else x for x in values])
            # Sums of narrow types are accumulated in float32.
            by = by + np.abs(wide(total)) * 2.0 ** -max(bits, 24) * math.sqrt(terms)
        with np.errstate(all="ignore"):
            made = exact + by * _MOVED * self.random.uniform(-1, 1, exact.shape)
            return jax.device_put(made.astype(result.dtype), result.sharding)


class ResultJudge:
    """Runs a program op by op, and judges what it gave when it was compiled.

    Args:
        closed: The closed jaxpr.
        args: Its flat arguments.
    """

    def __init__(self, closed: Any, args: Iterable[Any]) -> None:
        self.closed, self.args = closed, list(map(ShadowedValue, args))
        self.known = bodies(opened(closed))

    def run(self, interpreter: ShadowInterpreter) -> list[ShadowedValue]:
        """Returns the results as an interpreter has them."""
        return interpreter.evaluate_body(self.closed, self.args)

    @cached_property
    def values(self) -> list[Any]:
        """The results op by op."""
        return [x.value for x in self.run(ShadowInterpreter(self.known, follow=False))]

    @cached_property
    def references(self) -> list[list[Any]]:
        """The results in float64, and those of runs with moved results."""
        shadow = ShadowInterpreter(self.known)
        exact = [x.as_float64() for x in self.run(shadow)]
        inexact = {one.path for one in shadow.executions if one.own > 0}
        moved = (self.run(_Moved(self.known, inexact, n)) for n in range(_RUNS))
        return [exact, *([x.value for x in results] for results in moved)]

    def __call__(self, results: Sequence[Any]) -> tuple[CheckedResult, ...]:
        """Judges the results of a compiled program."""
        return tuple(self._result(n, x) for n, x in enumerate(results))

    def compiled(self, options: Any) -> tuple[CheckedResult, ...]:
        """Compiles the program, runs it, and judges its results."""
        args = [x.value for x in self.args]
        return self(compiled(opened(self.closed), self.closed.consts, args, options))

    def _result(self, index: int, result: Any) -> CheckedResult:
        value = self.values[index]
        apart = difference(index, result, value)
        dtype, shape = apart.dtype, tuple(value.shape)
        if not apart.unequal:
            return CheckedResult(index, dtype, shape, 0)
        exact, *others = (run[index] for run in self.references)
        if not is_float(value):
            x, own, *others = (np.asarray(plain_array(x)) for x in (result, value, *others))
            differs, flips = x != own, np.any([other != own for other in others], axis=0)
            wrong = differs & ~flips & (differs.sum() > flips.sum())
            return CheckedResult(index, dtype, shape, apart.unequal, int(wrong.sum()))
        x, own, *others = map(wide, (result, value, *others))
        kind, *kinds = map(_kind, (own, exact, *others))
        settled = np.all([kind == other for other in kinds], axis=0)
        runs = (np.where(settled, each, exact) for each in (x, own, *others))
        errors, *by_op = (element_errors(each, exact, dtype) for each in runs)
        error, least, *moved = (float(np.max(each, initial=0.0)) for each in (errors, *by_op))
        allowed = max(_FACTOR * max(least, 1.0), _FACTOR_MOVED * max(moved))
        # Such as NaN in the place of a number.
        wrong = (settled & (_kind(x) != kind)) | (errors.reshape(shape) > allowed)
        number, nan = int(wrong.sum()), int((wrong & np.isnan(x)).sum())
        return CheckedResult(index, dtype, shape, apart.unequal, number, nan, error, least, allowed)


def _kind(x: Any) -> Any:
    """Returns 0 where an element is finite, 1 for NaN, and 2 or 3 for an infinity."""
    infinite = np.where(np.real(x) < 0, 3, 2)
    return np.where(np.isnan(x), 1, np.where(np.isfinite(x), 0, infinite))
