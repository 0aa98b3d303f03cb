"""Arrays on a device, and programs that run there: all that is borrowed from JAX.

XLA's client compiles a StableHLO module and runs it on buffers that it owns. jaxlib has the client,
but the arrays that it hands out need a part of JAX to be of use (their shardings, their printing).
So this file, and only this one, imports jax: to find the client, to put numbers on a device, to
compile, to run. Running returns at once, with arrays whose numbers arrive later.

Tried with jax 0.10.2 to 0.12.0. Private are `jaxlib._jax.DeviceList`, which the client wants, and
the two that JAX itself puts arrays in and takes results out with, `batched_device_put` and
`array_result_handler`: they cost a tenth of their public relatives.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.extend import backend as jax_backend
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _jax

from jaxlens.core.avals import ShapedArray, canonical, float0
from jaxlens.core.parallel import meshes
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Tracer, Value, leaked
from jaxlens.core.trees import tree_leaves, tree_map

Buffer = Any  # jax.Array; or `Donated`
Types = Sequence[ShapedArray]


class Donated:
    """Stands where a buffer was that was given away.

    Attributes:
        to: The argument and the function that it was given to, in words.
    """

    def __init__(self, to: str) -> None:
        self.to = to

    def is_deleted(self) -> bool:
        """Yes."""
        return True


class Array(Value):
    """Numbers on a device: what a function gives that nobody is tracing.

    Attributes:
        aval: Their type.
        buffer: Where they are, or will be once the program that computes them is done.
        device: The device that they were put on; None for the default one.
    """

    __slots__ = ("aval", "buffer", "device")

    def __init__(self, buffer: Buffer, aval: ShapedArray, device: Any = None) -> None:
        self.buffer = buffer
        self.aval = aval
        self.device = device

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.asarray(self.live())
        found = found if dtype is None else found.astype(dtype, copy=False)
        return found.copy() if copy else found

    def live(self) -> Buffer:
        """The buffer.

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
        found: set[Any] = self.live().devices()
        return found

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


# ---- numbers to a device and back ---------------------------------------------------------------


_COPY = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ALIAS = _jax.HostBufferSemantics.ZERO_COPY


@cache
def _place(device: Any) -> tuple[Any, Any]:
    """A device and the sharding of an array that is there only; None is the default device."""
    device = device or jax_backend.get_default_device()
    return device, SingleDeviceSharding(device)


@cache
def _jax_aval(aval: ShapedArray) -> Any:
    dtype = np.dtype(bool) if aval.dtype == float0 else aval.dtype
    return jax.core.ShapedArray(aval.shape, dtype, weak_type=aval.weak_type)


def put(value: Any, aval: ShapedArray, device: Any = None, copy: bool = False) -> Buffer:
    """Numbers on a device as a buffer of this type; no copy where they are there already.

    On the CPU a NumPy array is there already, as for JAX: it must not change until the program
    that it was given to is done.

    Args:
        value: Ours, JAX's or NumPy's array, or a number.
        aval: Its type.
        device: Which; None for the default.
        copy: Whether a NumPy array is copied.
    """
    where, sharding = _place(device)
    if isinstance(value, Tracer):
        raise leaked(value)
    if type(value) is Array:
        value = value.live()
    if isinstance(value, jax.Array):
        if value.dtype != aval.dtype:
            value = value.astype(aval.dtype)
        return value if value.devices() == {where} else jax.device_put(value, where)
    kept = np.zeros(aval.shape, bool) if aval.dtype == float0 else value
    try:
        numbers = np.asarray(kept, dtype=_jax_aval(aval).dtype, order="C")
    except TypeError:
        raise TypeError(
            f"expected the numbers of {aval.str_short()}, got {value!r:.60}: a type alone can be "
            f"traced and lowered, not run."
        ) from None
    return _jax.batched_device_put(
        _jax_aval(aval), sharding, [numbers], [where], device is not None,
        host_buffer_semantics=_COPY if copy else _ALIAS, enable_x64=True,
    )  # fmt: skip


def array(value: Any, dtype: Any = None, device: Any = None) -> Array:
    """Numbers as an array on a device, copied if they are NumPy's."""
    if isinstance(value, Array | jax.Array):
        old = aval_of(value)
        numbers = value if dtype is None else np.asarray(value).astype(canonical(dtype))
        aval = old if dtype is None else ShapedArray(old.shape, canonical(dtype))
        return Array(put(numbers, aval, device), aval, device)
    numbers = np.asarray(value)
    aval = ShapedArray(numbers.shape, canonical(dtype or numbers.dtype))
    return Array(put(numbers, aval, device, copy=True), aval, device)


def device_put(tree: Any, device: Any = None) -> Any:
    """A tree of arrays, put on a device."""
    return tree_map(lambda x: x if isinstance(x, Tracer) else array(x, device=device), tree)


def device_get(tree: Any) -> Any:
    """A tree of arrays as NumPy's, once their numbers are there."""
    return tree_map(np.asarray, tree)


def block_until_ready(tree: Any) -> Any:
    """Waits until the numbers of all arrays in a tree are there."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Array):
            leaf.block_until_ready()
    return tree


def common_device(values: Sequence[Any]) -> Any:
    """The device that arrays among these were put on; None for the default one.

    Raises:
        ValueError: There are two.
    """
    found = {x.device for x in values if type(x) is Array}
    found.discard(None)
    if found:  # an array over several devices is brought to where it is needed
        found = {place for place in found if not isinstance(place, NamedSharding)}
    if len(found) > 1:
        raise ValueError(
            f"Received incompatible devices for one program: its arguments are on "
            f"{', '.join(sorted(map(str, found)))}. Bring them to one with core.device_put."
        )
    return found.pop() if found else None


def devices(backend: str | None = None) -> list[Any]:
    """The devices of a backend; None for the default one."""
    return list(jax.devices(backend))


# ---- programs -----------------------------------------------------------------------------------


class Executable:
    """A program that XLA has compiled and put on its devices.

    Attributes:
        loaded: XLA's own.
        devices: Where it runs.
        in_avals: The types of its arguments.
        out_avals: The types of its results.
    """

    __slots__ = (
        "_device", "_empty", "_handlers", "_start", "devices", "in_avals", "loaded", "out_avals",
    )  # fmt: skip

    def __init__(
        self, loaded: Any, devices: Sequence[Any], in_avals: Types, out_avals: Types
    ) -> None:
        self.loaded = loaded
        self.devices = [_place(device)[0] for device in devices]
        self.in_avals = in_avals
        self.out_avals = out_avals
        self._device = devices[0]
        self._start = loaded.execute_sharded
        sharding = SingleDeviceSharding(self.devices[0])
        self._handlers = [_handler(_jax_aval(aval), sharding) for aval in out_avals]
        self._empty = any(aval.dtype == float0 for aval in out_avals)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Starts it on its one device; its results may be used at once and are there later."""
        device = self._device
        buffers = [
            x.buffer if type(x) is Array and x.device is device else put(x, aval, device)
            for x, aval in zip(values, self.in_avals, strict=True)
        ]
        try:
            found = self._start(buffers).consume_with_handlers(self._handlers)
        except Exception:
            for x in values:
                if isinstance(x, Array):
                    x.live()
            raise
        pairs = zip(found, self.out_avals, strict=True)
        if self._empty:
            return [
                np.zeros(aval.shape, float0) if aval.dtype == float0 else Array(x, aval, device)
                for x, aval in pairs
            ]
        return [Array(x, aval, device) for x, aval in pairs]

    def as_text(self) -> str:
        """The optimised HLO."""
        return "\n\n".join(module.to_string() for module in self.loaded.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates of operations and bytes; a loop's body counts once."""
        return dict(self.loaded.cost_analysis())

    def memory_analysis(self) -> Any:
        """XLA's sizes of arguments, results and temporary buffers, in bytes."""
        return self.loaded.get_compiled_memory_stats()


@cache
def spread(mesh: meshes.Mesh, spec: meshes.P) -> NamedSharding:
    """JAX's name for a layout."""
    return NamedSharding(Mesh(mesh.devices, mesh.axis_names), P(*spec))  # type: ignore[no-untyped-call]


class Spread(Executable):
    """A program for several devices, each of which has its part of the arguments and results."""

    __slots__ = ("_in", "_out")

    def __init__(self, loaded: Any, layout: meshes.Layout, *avals: Types) -> None:
        super().__init__(loaded, list(layout.mesh.devices.flat), *avals)
        self._in = [spread(layout.mesh, spec) for spec in layout.in_specs]
        self._out = [spread(layout.mesh, spec) for spec in layout.out_specs]
        self._handlers = list(map(_handler, map(_jax_aval, self.out_avals), self._out))

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Starts it; its results lie over the devices."""
        buffers = list(map(_put_spread, values, self.in_avals, self._in))
        found = self._start(buffers).consume_with_handlers(self._handlers)
        return list(map(Array, found, self.out_avals, self._out))


def _put_spread(value: Any, aval: ShapedArray, place: NamedSharding) -> Buffer:
    if isinstance(value, Tracer):
        raise leaked(value)
    if type(value) is Array and value.device is place:
        return value.live()
    numbers = value.live() if type(value) is Array else np.asarray(value, _jax_aval(aval).dtype)
    with jax.enable_x64(True):  # else JAX would halve 64-bit elements
        return jax.device_put(numbers, place)


def _handler(aval: Any, sharding: Any) -> Any:
    """What makes an array of a result; jaxlib 0.12 has one keyword less."""
    try:
        return _jax.array_result_handler(aval, sharding, committed=False, _skip_checks=True)
    except TypeError:
        return _jax.array_result_handler(aval, sharding, committed=False)


def compile_module(
    module: Any,
    in_avals: Types,
    out_avals: Types,
    *,
    device: Any = None,
    options: dict[str, Any] | None = None,
    layout: meshes.Layout | None = None,
) -> Executable:
    """Compiles a StableHLO module.

    Args:
        module: An `ir.Module`, or its text or bytecode.
        in_avals: The types of its arguments.
        out_avals: The types of its results.
        device: For which; None for the default one.
        options: XLA's, by name.
        layout: How it lies on a mesh, whose devices it is then for.
    """
    client = jax_backend.get_backend()
    chosen = list(layout.mesh.devices.flat) if layout else [_place(device)[0]]
    built = jax_backend.get_compile_options(
        num_replicas=1,
        num_partitions=len(chosen),
        device_assignment=np.array([[d.id for d in chosen]]),
        env_options_overrides=options or {},
    )
    loaded = client.compile_and_load(_text(module), _jax.DeviceList(tuple(chosen)), built)
    if layout:
        return Spread(loaded, layout, in_avals, out_avals)
    return Executable(loaded, [device], in_avals, out_avals)


def hlo_text(module: Any) -> str:
    """A StableHLO module as XLA's own HLO, before it optimises."""
    text: str = _jax.mlir.mlir_module_to_xla_computation(_text(module)).as_hlo_text()
    return text


def _text(module: Any) -> bytes:
    if isinstance(module, bytes):
        return module
    text: str = module.operation.get_asm(binary=False, enable_debug_info=True)
    return text.encode()
