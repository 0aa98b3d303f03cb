"""Arrays on a device, and programs that run there: all that the core takes from JAX.

XLA's client compiles a StableHLO module and runs it on buffers that it owns. jaxlib has the client,
but its arrays need a part of JAX to be of use (their shardings, their printing). So this file, and
only this one, imports jax: to find the client, to put arrays on a device, to compile, to run. A
program starts asynchronously: its results are arrays whose values arrive later.

Tried with jax 0.10.2 to 0.12.0. Private are the modules behind `jax.extend.backend`,
`jaxlib._jax.DeviceList`, which the client wants, and the two that JAX itself puts arrays in and
takes results out with, `batched_device_put` and `array_result_handler`: they cost a tenth of their
public relatives.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import index
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _jax
from jaxlib.mlir import ir

try:  # from jax 0.12 on, importing `jax.extend` changes the key of every trace
    from jax._src.compiler import get_compile_options
    from jax._src.interpreters.pxla import get_default_device
    from jax._src.xla_bridge import get_backend
except ImportError:
    from jax.extend.backend import get_backend, get_compile_options, get_default_device

from jaxlens.core.aot.lower import MeshLayout, Spec, layout, lower_program
from jaxlens.core.kernel.interpreter import Tracer, Value, aval_of, observer
from jaxlens.core.kernel.jaxpr import ClosedJaxpr
from jaxlens.core.kernel.run import Backend
from jaxlens.core.kernel.tree import tree_leaves
from jaxlens.core.kernel.types import ShapedArray, canonical, float0
from jaxlens.core.transforms.trees import tree_map

KeyArray: Any  # the class of `jax.random.key(0)`; None where it is elsewhere: keys are words then
try:
    from jax._src.random import prng
except ImportError:
    KeyArray = None
else:
    KeyArray = prng.PRNGKeyArray
Buffer = Any  # jax.Array; or `Donated`
Place = Any  # a device, the layout of an array over several, or None: the default device
Types = Sequence[ShapedArray]


class Donated(NamedTuple):
    """Replaces a buffer that was donated to a program.

    Attributes:
        to: Names the function and the argument that it was donated to.
    """

    to: str

    def is_deleted(self) -> bool:
        """Always true."""
        return True


def _on_numpy(f: Callable[..., Any]) -> Any:
    """Makes an `Array` method from a function on `np.ndarray`."""

    def method(self: "Array", *args: Any) -> Any:
        return f(np.asarray(self), *args)

    return method


class Array(Value):
    """An array on a device: the result of a function that is not being traced.

    Attributes:
        aval: Its type.
        buffer: jaxlib's buffer, whose program may still be running; or `Donated`.
        device: Where it was put: a device, or a sharding over several; None for the default one.
    """

    __slots__ = ("aval", "buffer", "device")

    def __init__(self, buffer: Buffer, aval: ShapedArray, device: Place = None) -> None:
        self.buffer = buffer
        self.aval = aval
        self.device = device

    def live(self) -> Buffer:
        """Returns the buffer.

        Raises:
            RuntimeError: It was donated to a program, which has used its memory.
        """
        if self.buffer.is_deleted():
            to = self.buffer.to if type(self.buffer) is Donated else "a program"
            raise RuntimeError(
                f"Array has been deleted with shape={self.aval.str_short()}: it was donated to "
                f"{to}, which has used its memory. Use that function's result, or do not name the "
                f"argument in donate_argnums."
            )
        return self.buffer

    __jax_array__ = live

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        numbers = np.asarray(self.live())
        numbers = numbers if dtype is None else numbers.astype(dtype, copy=False)
        return numbers.copy() if copy else numbers

    def block_until_ready(self) -> "Array":
        """Waits until the array is computed."""
        self.live().block_until_ready()
        return self

    def is_deleted(self) -> bool:
        """Whether the buffer was donated or deleted."""
        return bool(self.buffer.is_deleted())

    def devices(self) -> Any:
        """Returns the devices that hold the array."""
        return self.live().devices()

    item = _on_numpy(np.ndarray.item)
    tolist = _on_numpy(np.ndarray.tolist)
    __bool__ = _on_numpy(bool)
    __int__ = _on_numpy(int)
    __float__ = _on_numpy(float)
    __complex__ = _on_numpy(complex)
    __index__ = _on_numpy(index)
    __format__ = _on_numpy(format)
    __str__ = _on_numpy(str)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: an array's numbers may change hands, use x.item()")

    def __repr__(self) -> str:
        numbers = np.array2string(np.asarray(self), separator=", ", prefix="Array(")
        weak = ", weak_type=True" if self.weak_type else ""
        return f"Array({numbers}, dtype={self.dtype.name}{weak})"


# ---- numbers to a device and back ---------------------------------------------------------------


_COPY = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ALIAS = _jax.HostBufferSemantics.ZERO_COPY


@cache
def spread(mesh: Any, spec: Spec) -> NamedSharding:
    """Returns JAX's `NamedSharding` for a spec on a mesh of the core."""
    return NamedSharding(Mesh(mesh.devices, mesh.axis_names), P(*spec))  # type: ignore[no-untyped-call]


@cache
def _target(place: Place) -> tuple[Any, list[Any]]:
    """Returns JAX's sharding for a place, and its devices."""
    spread_out = isinstance(place, NamedSharding)
    sharding = place if spread_out else SingleDeviceSharding(place or get_default_device())
    return sharding, list(sharding.device_set)


@cache
def _jax_aval(aval: ShapedArray) -> Any:
    dtype = np.dtype(bool) if aval.dtype == float0 else aval.dtype
    return jax.core.ShapedArray(aval.shape, dtype, weak_type=aval.weak_type)


def put(value: Any, aval: ShapedArray, place: Place = None, copy: bool = False) -> Buffer:
    """Puts a value on a device as a buffer of this type, without a copy if it is there already.

    On the CPU a NumPy array is there already, as for JAX: it must not change until the program
    that it was given to is done.

    Args:
        value: Ours, JAX's or NumPy's array, or a number.
        aval: Its type.
        place: Where to.
        copy: Whether a NumPy array is copied.
    """
    if isinstance(value, Tracer):
        raise observer.source.refusal(value, "__array__")
    if type(value) is Array:
        value = value.live()
    sharding, devices = _target(place)
    if isinstance(value, jax.Array):
        value = value if value.dtype == aval.dtype else value.astype(aval.dtype)
        if value.sharding == sharding:
            return value
    else:
        value = _numbers(value, aval)
        if len(devices) == 1:
            semantics, committed = _COPY if copy else _ALIAS, place is not None
            return _jax.batched_device_put(
                _jax_aval(aval),
                sharding,
                [value],
                devices,
                committed,
                host_buffer_semantics=semantics,
                enable_x64=True,
            )
    with jax.enable_x64(True):  # else JAX would halve 64-bit elements
        return jax.device_put(value, sharding)


def _numbers(value: Any, aval: ShapedArray) -> np.ndarray:
    source = np.zeros(aval.shape, bool) if aval.dtype == float0 else value
    try:
        return np.asarray(source, dtype=_jax_aval(aval).dtype, order="C")
    except TypeError:
        raise TypeError(
            f"expected the numbers of {aval.str_short()}, got {value!r:.60}: a type alone can be "
            f"traced and lowered, not run."
        ) from None


def array(value: Any, dtype: Any = None, device: Place = None) -> Array:
    """Returns a value as an array on a device; copies a NumPy array.

    Raises:
        OverflowError: A Python integer is outside of an integer dtype.
    """
    if dtype is not None or not isinstance(value, Array | jax.Array | int | float | complex):
        given, value = value, np.asarray(value)
        numbers = isinstance(given, int | list | tuple) and value.dtype.kind in "iu"
        if dtype is not None and numbers and canonical(dtype).kind in "iu":
            value = np.asarray(given, canonical(dtype))
    aval = aval_of(value) if dtype is None else ShapedArray(value.shape, canonical(dtype))
    return Array(put(value, aval, device, copy=True), aval, device)


def device_put(tree: Any, device: Any = None) -> Any:
    """Puts the arrays of a tree on a device."""
    return tree_map(lambda x: x if isinstance(x, Tracer) else array(x, device=device), tree)


def device_get(tree: Any) -> Any:
    """Returns the arrays of a tree as NumPy arrays, once they are computed."""
    return tree_map(np.asarray, tree)


def block_until_ready(tree: Any) -> Any:
    """Waits until all arrays of a tree are computed."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Array):
            leaf.block_until_ready()
    return tree


def common_device(values: Sequence[Any]) -> Any:
    """Returns the device that the arrays among these were put on; None for the default one.

    An array over several devices is brought to where it is needed.

    Raises:
        ValueError: There are two.
    """
    places = {x.device for x in values if type(x) is Array} - {None}
    chosen = {place for place in places if not isinstance(place, NamedSharding)}
    if len(chosen) > 1:
        raise ValueError(
            f"Received incompatible devices for one program: its arguments are on "
            f"{', '.join(sorted(map(str, chosen)))}. Bring them to one with core.device_put."
        )
    return chosen.pop() if chosen else None


def devices(backend: str | None = None) -> list[Any]:
    """Returns the devices of a backend, by default of the default one."""
    return list(jax.devices(backend))


# ---- programs -----------------------------------------------------------------------------------


class Executable:
    """A StableHLO module that XLA has compiled and put on its devices.

    Args:
        module: An `ir.Module`, its text, or bytes of it.
        in_avals: The types of its arguments.
        out_avals: The types of its results.
        device: Which device it is for; None for the default one.
        options: XLA's, by name.
        layout: How it lies on a mesh, whose devices it is then for.

    Attributes:
        in_avals: The types of its arguments.
        loaded: XLA's own.
    """

    def __init__(
        self,
        module: Any,
        in_avals: Types,
        out_avals: Types,
        device: Any = None,
        options: dict[str, Any] | None = None,
        layout: MeshLayout | None = None,
    ) -> None:
        if layout:
            chosen = list(layout.mesh.devices.flat)
            ins, outs = ([spread(layout.mesh, spec) for spec in specs] for specs in layout[1:])
        else:
            chosen = [device or get_default_device()]
            ins, outs = ([device] * len(avals) for avals in (in_avals, out_avals))
        built = get_compile_options(
            num_replicas=1,
            num_partitions=len(chosen),
            device_assignment=np.array([[d.id for d in chosen]]),
            env_options_overrides=options or {},
        )
        if isinstance(module, ir.Module):
            module = module.operation.get_asm(enable_debug_info=True)
        self.loaded = get_backend().compile_and_load(module, _jax.DeviceList(tuple(chosen)), built)
        self._start = self.loaded.execute_sharded
        self.in_avals, self._in_places = in_avals, ins
        self._out_avals, self._out_places = out_avals, outs
        self._handlers = list(map(_handler, out_avals, outs))
        self._empty = any(aval.dtype == float0 for aval in out_avals)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Starts the program; returns its results, which may still be being computed."""
        buffers = [
            x.buffer if type(x) is Array and x.device is place else put(x, aval, place)
            for x, aval, place in zip(values, self.in_avals, self._in_places, strict=True)
        ]
        try:
            buffers_out = self._start(buffers).consume_with_handlers(self._handlers)
        except Exception:
            for x in values:
                if isinstance(x, Array):
                    x.live()
            raise
        results = list(map(Array, buffers_out, self._out_avals, self._out_places))
        if self._empty:
            return [np.zeros(x.shape, float0) if x.dtype == float0 else x for x in results]
        return results


def _handler(aval: ShapedArray, place: Place) -> Any:
    """Returns what makes a `jax.Array` of a result; jaxlib 0.12 has one keyword less."""
    handler, args = _jax.array_result_handler, (_jax_aval(aval), _target(place)[0])
    try:
        return handler(*args, committed=False, _skip_checks=True)
    except TypeError:
        return handler(*args, committed=False)


class XLA(Backend):
    """Runs jaxprs by XLA, on the devices of their arguments."""

    def device(self, values: Sequence[Any]) -> Any:
        return common_device(values)

    def array(self, value: Any, dtype: Any = None) -> Array:
        return array(value, dtype)

    def compile(self, closed: ClosedJaxpr, name: str, device: Any) -> Executable:
        place = layout(closed)
        module = lower_program(closed, name, layout=place)
        ins, outs = closed.in_avals, closed.out_avals
        return Executable(module, ins, outs, device=device, layout=place)
