"""Takes the array of one equation along, out of the run that makes it."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxlens.compat.arrays import is_ref
from jaxlens.questions.values.measure.values import real_type, unsharded
from jaxlens.questions.values.statistics import ExecutionArray
from jaxlens.stages.session.running import Running
from jaxlens.taps.evaluate import Probe, Site, deepest, equations
from jaxlens.taps.execute import execute
from jaxlens.taps.executions import LOOPS, Path


class _LastArray(Probe):
    """Takes the first result of one equation along, as the bits of its last execution.

    A row of integers: whether it was executed, device, iterations, and the bits.
    """

    dtype = np.dtype(np.int32)

    def __init__(self, ident: str, aval: Any, depth: int) -> None:
        self._ident, self._head, self._aval = ident, 2 + depth, aval
        self.key = "array", ident
        self.width = self._head - (-_octets(aval) // 4)

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether it is the equation."""
        return path[-1] == self._ident

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the row."""
        value = unsharded(jnp.asarray(results[0]))
        parts = [value.real, value.imag] if jnp.iscomplexobj(value) else [value]
        if value.dtype == bool:
            parts = [value.astype(np.uint8)]
        octets = jnp.concatenate([lax.bitcast_convert_type(x, np.uint8).ravel() for x in parts])
        padded = jnp.pad(octets, (0, -octets.size % 4)).reshape(-1, 4)
        bits = lax.bitcast_convert_type(padded, np.int32)
        device = 0 if site.device is None else site.device + 1
        when = [1, device, *site.iterations]
        when += [0] * (self._head - len(when))
        return jnp.concatenate([jnp.stack([jnp.asarray(n, np.int32) for n in when]), bits])

    def merge(self, before: Any, now: Any) -> Any:
        """Keeps the later one."""
        return super().merge(now, before)

    def join(self, one: Any, other: Any) -> Any:
        """Keeps that of the first device."""
        return super().merge(one, other)

    def array(self, path: Path, row: Any, iterations: int) -> ExecutionArray:
        """Returns the array of a row."""
        aval = self._aval
        flat = row[self._head :].copy().view(np.uint8)[: _octets(aval)].view(real_type(aval.dtype))
        if jnp.issubdtype(aval.dtype, jnp.complexfloating):
            real, imaginary = flat.reshape(2, -1)
            flat = real + 1j * imaginary
        array = flat.astype(aval.dtype).reshape(aval.shape)
        when = tuple(row[2 : 2 + iterations].tolist())
        device = int(row[1]) - 1 if row[1] else None
        return ExecutionArray(path, array, str(aval.dtype), _text(array), when, device)


def array_of(live: Running, ident: str) -> ExecutionArray | None:
    """Runs a program once, and returns what the last execution of an equation made.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    with live.measuring("takes an array along", "--values") as (closed, leaves):
        return array_at(closed, leaves, ident)


def array_at(closed: Any, args: Sequence[Any], ident: str) -> ExecutionArray | None:
    """Runs a program once, and returns what the last execution of an equation made.

    Args:
        closed: A closed jaxpr of JAX's.
        args: Its arguments; none is donated.
        ident: The id of the equation.

    Returns:
        Its first result; None if it was not executed, is a call, or makes no array of numbers.
    """
    eqns = equations(closed)
    eqn = eqns[ident]
    aval = eqn.outvars[0].aval if eqn.outvars else None
    if is_ref(aval) or not isinstance(getattr(aval, "dtype", None), np.dtype):
        return None
    probe = _LastArray(ident, aval, deepest(closed))
    _, rows = execute(closed, probe, args)
    done = [(path, row[0]) for path, row in rows.items() if row[0][0]]
    if not done:
        return None
    path, row = done[-1]
    return probe.array(path, row, sum(eqns[step].primitive.name in LOOPS for step in path[:-1]))


def _text(array: Any) -> tuple[str, ...]:
    """Returns the elements in lines, those of the corners where there are many."""
    plain = array.astype(np.float32) if array.dtype.kind == "V" else array
    text = np.array2string(plain, precision=4, threshold=64, edgeitems=3, max_line_width=96)
    return tuple(text.splitlines())


def _octets(aval: Any) -> int:
    size: int = math.prod(aval.shape) * np.dtype(aval.dtype).itemsize
    return size
