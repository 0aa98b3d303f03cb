"""Arrays on a device, and programs that run there: all that the core takes from JAX to run.

A program of the core is one equation in a program of JAX, whose lowering emits the core's ops. JAX
has it compiled by XLA, and starts it: its results are arrays whose values arrive later. So this
file, and `interop/`, import jax: to put arrays on a device, to compile, to run.

Tried with jax 0.10.2 to 0.12.0. Private is the module behind `jax.extend.core`.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import index
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir
from jax.sharding import NamedSharding, SingleDeviceSharding

try:  # from jax 0.12 on, importing `jax.extend` changes the key of every trace
    from jax._src.core import Primitive
except ImportError:
    from jax.extend.core import Primitive

from jaxlens.core.aot.lower import layout
from jaxlens.core.kernel.interpreter import Tracer, Value, aval_of, observer
from jaxlens.core.kernel.jaxpr import ClosedJaxpr
from jaxlens.core.kernel.run import Backend, ModuleState, lower_body
from jaxlens.core.kernel.types import ShapedArray, canonical, float0, x64
from jaxlens.core.transforms.trees import tree_leaves, tree_map

Mesh = jax.sharding.Mesh
P: Any = jax.sharding.PartitionSpec
Place = Any  # a device, the layout of an array over several, or None: the default device


def _on_numpy(f: Callable[..., Any]) -> Any:
    """Makes an `Array` method from a function on `np.ndarray`."""

    def method(self: "Array", *args: Any) -> Any:
        return f(np.asarray(self), *args)

    return method


class Array(Value):
    """An array on a device: the result of a function that is not being traced.

    Attributes:
        aval: Its type.
        buffer: JAX's array, whose program may still be running, or which was donated to one.
        device: Where it was put: a device, or a sharding over several; None for the default one.
    """

    __slots__ = ("aval", "buffer", "device")

    def __init__(self, buffer: Any, aval: ShapedArray, device: Place = None) -> None:
        self.buffer = buffer
        self.aval = aval
        self.device = device

    def live(self) -> Any:
        """Returns the buffer.

        Raises:
            RuntimeError: It was donated to a program, which has used its memory.
        """
        if self.buffer.is_deleted():
            raise RuntimeError(
                f"Array has been deleted with shape={self.aval.str_short()}: it was donated to a "
                f"program, which has used its memory. Use that program's result, or do not name "
                f"the argument in donate_argnums."
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
        return self.buffer.devices()

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


@cache
def spread(mesh: Mesh, spec: Any) -> NamedSharding:
    """Returns JAX's `NamedSharding`: one object for a mesh and a spec."""
    return NamedSharding(mesh, P(*spec))


def operand(value: Any, aval: ShapedArray, sharding: Any = None) -> Any:
    """Returns a value as JAX's program takes it: an array of JAX in its place, or one of NumPy.

    On the CPU a NumPy array is not copied, as by JAX: it must not change until the program that it
    was given to is done.

    Args:
        value: Ours, JAX's or NumPy's array, or a number.
        aval: Its type.
        sharding: Where an array of JAX is needed; None if anywhere.
    """
    if isinstance(value, Tracer):
        raise observer.refusal(value, "__array__")
    if type(value) is Array:
        value = value.buffer
    if not isinstance(value, jax.Array):
        numbers = _numbers(value, aval)
        return _put(numbers, sharding) if x64() else numbers
    value = value if value.dtype == aval.dtype else value.astype(aval.dtype)
    if sharding is None or value.is_deleted() or value.sharding == sharding:
        return value
    return _put(value, sharding)


def _put(value: Any, place: Place) -> Any:
    """Puts numbers on a device, also while JAX traces, 64-bit elements as they are."""
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return jax.device_put(value, place)


def _numbers(value: Any, aval: ShapedArray) -> np.ndarray:
    source = np.zeros(aval.shape, bool) if aval.dtype == float0 else value
    try:
        return np.asarray(source, dtype=_dtype(aval), order="C")
    except TypeError:
        raise TypeError(
            f"expected the numbers of {aval.str_short()}, got {value!r:.60}: a type alone can be "
            f"traced and lowered, not run."
        ) from None


def _dtype(aval: ShapedArray) -> Any:
    return np.dtype(bool) if aval.dtype == float0 else aval.dtype


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
    own = operand(value, aval)
    if isinstance(own, np.ndarray) or device is not None:
        own = _put(np.array(own) if isinstance(own, np.ndarray) else own, device)
    return Array(own, aval, device)


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


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[str], *, devices: Sequence[Any] | None = None
) -> Mesh:
    """Returns JAX's mesh of the first devices, in rows and columns of these lengths.

    Raises:
        ValueError: There are fewer devices.
    """
    auto = (jax.sharding.AxisType.Auto,) * len(axis_names)
    return jax.make_mesh(axis_shapes, axis_names, auto, devices=devices)


# ---- programs -----------------------------------------------------------------------------------

program_p: Any = Primitive("core_program")
program_p.multiple_results = True


def _jax_type(aval: ShapedArray) -> Any:
    return jax.core.ShapedArray(aval.shape, _dtype(aval), aval.weak_type)


program_p.def_abstract_eval(lambda *_, program: list(map(_jax_type, program.out_avals)))


def _lower(ctx: Any, *operands: Any, program: ClosedJaxpr) -> list[Any]:
    """Emits the core's ops into the module that JAX is writing."""
    host = ctx.module_context
    state = ModuleState(host.module, host.symbol_table, layout(program))
    return lower_body(state, program, operands, ())


mlir.register_lowering(program_p, _lower)


def lowered(closed: ClosedJaxpr, name: str, device: Any = None, donated: Sequence[int] = ()) -> Any:
    """Returns the program of a jaxpr as JAX's `Lowered`.

    Args:
        closed: The jaxpr.
        name: The name of the function that was traced.
        device: Which device it is for; None for the default one, or for those of its mesh.
        donated: The parameters whose memory may be used for results.
    """

    def program(*operands: Any) -> Any:
        return program_p.bind(*operands, program=closed)

    program.__name__ = program.__qualname__ = name
    places, where = layout(closed), dict[str, Any]()
    if places is not None:
        ins, outs = ([spread(places.mesh, spec) for spec in specs] for specs in places[1:])
        where = {"in_shardings": ins, "out_shardings": outs}
    elif device is not None:
        where = dict.fromkeys(("in_shardings", "out_shardings"), SingleDeviceSharding(device))
    with jax.enable_x64(True):  # else JAX would halve 64-bit elements
        jitted: Any = jax.jit(program, keep_unused=True, donate_argnums=tuple(donated), **where)
        return jitted.lower(*map(_jax_type, closed.in_avals))


class Executable:
    """A program that XLA has compiled and put on its devices.

    Args:
        closed: Its jaxpr.
        compiled: JAX's `Compiled` of it.
        device: Which device it is for; None for the default one.

    Attributes:
        in_avals: The types of its arguments.
        compiled: JAX's.
    """

    def __init__(self, closed: ClosedJaxpr, compiled: Any, device: Any = None) -> None:
        places = layout(closed)
        self.in_avals, self._out_avals, self.compiled = closed.in_avals, closed.out_avals, compiled
        self._shardings = compiled.input_shardings[0]
        self._in_places: Sequence[Place] = [device] * len(self.in_avals)
        self._out_places: Sequence[Place] = [device] * len(self._out_avals)
        if places is not None:
            mesh, *specs = places
            self._in_places, self._out_places = ([spread(mesh, s) for s in row] for row in specs)
        self._empty = any(aval.dtype == float0 for aval in self._out_avals)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Starts the program; returns its results, which may still be being computed."""
        buffers = [
            x.buffer if type(x) is Array and x.device is place else operand(x, aval, sharding)
            for x, aval, place, sharding in zip(
                values, self.in_avals, self._in_places, self._shardings, strict=True
            )
        ]
        try:
            buffers_out = self.compiled(*buffers)
        except ValueError:
            for x in values:
                if isinstance(x, Array):
                    x.live()
            raise
        results = list(map(Array, buffers_out, self._out_avals, self._out_places))
        if self._empty:
            return [np.zeros(x.shape, float0) if x.dtype == float0 else x for x in results]
        return results


class XLA(Backend):
    """Runs jaxprs by XLA, on the devices of their arguments."""

    def device(self, values: Sequence[Any]) -> Any:
        return common_device(values)

    def array(self, value: Any, dtype: Any = None) -> Array:
        return array(value, dtype)

    def compile(self, closed: ClosedJaxpr, name: str, device: Any) -> Executable:
        return Executable(closed, lowered(closed, name, device).compile(), device)
