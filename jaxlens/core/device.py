"""Arrays on a device, and programs that run there: all that is borrowed from JAX.

XLA's client compiles a StableHLO module and runs it on buffers that it owns. jaxlib has the client,
but the arrays that it hands out need a part of JAX to be of use (their shardings, their printing).
So this file, and only this one, imports jax: to find the client, to put numbers on a device, to
compile, to run. Running returns at once, with arrays whose numbers arrive later.

Tried with jax 0.10.2 to 0.12.0. Private is `jaxlib._jax.DeviceList`, which the client wants.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import backend as jax_backend
from jaxlib import _jax

from jaxlens.core.avals import ShapedArray, canonical
from jaxlens.core.tracers import Value

Buffer = jax.Array


class Array(Value):
    """Numbers on a device: what a function gives that nobody is tracing.

    Attributes:
        aval: Their type.
        buffer: Where they are, or will be once the program that computes them is done.
    """

    __slots__ = ("aval", "buffer")

    def __init__(self, buffer: Buffer, aval: ShapedArray) -> None:
        self.buffer = buffer
        self.aval = aval

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.asarray(self.live())
        return found if dtype is None else found.astype(dtype)

    def live(self) -> Buffer:
        """The buffer.

        Raises:
            RuntimeError: It was donated to a program, which has used its memory.
        """
        if self.buffer.is_deleted():
            raise RuntimeError(
                f"Array has been deleted with shape={self.aval.str_short()}: it was donated to a "
                f"jitted function. Use that function's result, or do not name the argument in "
                f"donate_argnums."
            )
        return self.buffer

    def __jax_array__(self) -> Buffer:
        return self.live()

    def block_until_ready(self) -> "Array":
        """Waits until the numbers are there."""
        self.live().block_until_ready()
        return self

    def is_deleted(self) -> bool:
        """Whether the memory was given away."""
        return bool(self.buffer.is_deleted())

    def devices(self) -> set[Any]:
        """Where the numbers are."""
        return self.buffer.devices()

    def item(self) -> Any:
        """The one number, as Python's."""
        return np.asarray(self).item()

    def tolist(self) -> Any:
        """Nested lists of Python's numbers."""
        return np.asarray(self).tolist()

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return np.asarray(self).__index__()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self.shape else format(np.asarray(self), spec)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: an array's numbers may change hands, use x.item()")

    def __repr__(self) -> str:
        numbers = np.array2string(np.asarray(self), separator=", ", prefix="Array(")
        weak = ", weak_type=True" if self.weak_type else ""
        return f"Array({numbers}, dtype={self.dtype.name}{weak})"

    def __str__(self) -> str:
        return str(np.asarray(self))


def put(value: Any, aval: ShapedArray, device: Any = None) -> Buffer:
    """Numbers on a device as a buffer of this type; no copy where they are there already.

    Args:
        value: Ours, JAX's or NumPy's array, or a number.
        aval: Its type.
        device: Which; None for the default.
    """
    if type(value) is Array:
        value = value.live()
    if not isinstance(value, jax.Array):
        value = np.asarray(value, dtype=aval.dtype)
    with jax.enable_x64(True):  # JAX would halve 64-bit elements; `canonical` decided that before
        buffer: Buffer = jax.device_put(value, device)
    return buffer


def array(value: Any, dtype: Any = None, device: Any = None) -> Array:
    """Numbers as an array on a device."""
    from_numpy = np.asarray(value)
    aval = ShapedArray(from_numpy.shape, canonical(dtype or from_numpy.dtype))
    return Array(put(from_numpy, aval, device), aval)


def devices(backend: str | None = None) -> list[Any]:
    """The devices of a backend; None for the default one."""
    return list(jax.devices(backend))


class Executable:
    """A program that XLA has compiled and put on its devices."""

    __slots__ = ("loaded", "run_buffers")

    def __init__(self, loaded: Any) -> None:
        self.loaded = loaded
        self.run_buffers = loaded.execute_sharded

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Starts the program; its results may be used at once and are there later."""
        results = self.run_buffers(buffers).disassemble_into_single_device_arrays()
        return [result[0] for result in results]


def compile_module(module: Any, *, options: dict[str, Any] | None = None) -> Executable:
    """Compiles a StableHLO module for the default device.

    Args:
        module: An `ir.Module`.
        options: XLA's, by name.
    """
    client = jax_backend.get_backend()
    built = jax_backend.get_compile_options(
        num_replicas=1, num_partitions=1, env_options_overrides=options or {}
    )
    text = module.operation.get_asm(binary=False, enable_debug_info=True)
    chosen = _jax.DeviceList((jax_backend.get_default_device(),))
    return Executable(client.compile_and_load(text.encode(), chosen, built))
