"""Lowers for other devices; prints lowered programs."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from jaxlens.compat.import_private import private
from jaxlens.interrupts import uninterrupted

_assigning = threading.RLock()


def lower_for(devices_for: Callable[[int], Sequence[Any]], lower: Callable[[], Any]) -> Any:
    """Lowers a program for other devices than those that its arrays, shardings and meshes name.

    The function by which JAX finds the program's devices is patched until it is called in this
    thread. (Tested: 0.10.2, 0.11.2, 0.12.0.1.)

    Args:
        devices_for: Returns the devices to compile for, given how many the program has; in the
            order of its mesh.
        lower: Makes the `jax.stages.Lowered`.

    Gone: None.
    """
    with _assigned(devices_for):
        lowered = lower()
    try:
        own = tuple(lowered._lowering._device_list)
        if own[0].client is not devices_for(len(own))[0].client:
            return None
        parts = lowered._lowering.compile_args
        for key in ("in_shardings", "out_shardings", "intermediate_shardings"):
            parts[key] = tuple(_moved(sharding, own) for sharding in parts[key])
        parts["context_mesh"] = _moved_mesh(parts["context_mesh"], own)
        return lowered
    except (AttributeError, KeyError, TypeError):
        return None


@uninterrupted
def _assigned(devices_for: Callable[[int], Sequence[Any]]) -> Iterator[None]:
    try:
        pxla = private("interpreters.pxla")
        original = pxla._get_and_check_device_assignment
    except (ImportError, AttributeError):
        yield
        return
    thread: int | None = threading.get_ident()

    def assigned(*program: Any) -> Any:
        nonlocal thread
        backend, own, count = original(*program)
        if threading.get_ident() != thread:
            return backend, own, count
        thread = None  # what lowering itself runs, runs here
        devices = tuple(devices_for(count))
        return devices[0].client, devices, len(devices)

    with _assigning:
        pxla._get_and_check_device_assignment = assigned
        try:
            yield
        finally:
            pxla._get_and_check_device_assignment = original


def _moved(sharding: Any, devices: Sequence[Any]) -> Any:
    """Returns a sharding with other devices, unless it has none."""
    kind = sharding.memory_kind if isinstance(sharding, jax.sharding.Sharding) else None
    if isinstance(sharding, NamedSharding):
        mesh = _moved_mesh(sharding.mesh, devices)
        return NamedSharding(mesh, sharding.spec, memory_kind=kind)
    if isinstance(sharding, SingleDeviceSharding):
        return SingleDeviceSharding(devices[0], memory_kind=kind)
    return sharding


def _moved_mesh(mesh: Any, devices: Sequence[Any]) -> Any:
    """Returns a mesh with other devices, unless it has none."""
    if not isinstance(mesh, Mesh) or mesh.empty:
        return mesh
    return Mesh(np.array(devices).reshape(mesh.devices.shape), mesh.axis_names, mesh.axis_types)


def hlo(lowered: Any) -> Any:
    """Returns the HLO computation that XLA compiles for a lowered program.

    If the program calls a `jax.export.Exported` with symbolic shapes or for several platforms, JAX
    first refines the shapes. The StableHLO still has the symbolic ones, and `compiler_ir("hlo")`,
    which does not refine, fails on most of them. (Tested: 0.10.2, 0.12.0.1.)

    Gone: the result of `compiler_ir("hlo")`.
    """
    try:
        state = lowered._lowering.compile_args["shape_poly_state"]
        if state is None or not state.uses_dim_vars:
            return lowered.compiler_ir("hlo")
        mlir = private("interpreters.mlir")
        from jaxlib import _jax

        refined = mlir.refine_polymorphic_shapes(lowered.compiler_ir("stablehlo"))
        return _jax.mlir.mlir_module_to_xla_computation(
            mlir.module_to_bytecode(refined),
            use_tuple_args=lowered._lowering.compile_args["tuple_args"],
        )
    except (ImportError, AttributeError, KeyError, TypeError):
        return lowered.compiler_ir("hlo")


def symbols(size: Any) -> tuple[str, ...]:
    """Returns the names in a symbolic size ("b" and "n" of 2*b + n); () for a number.

    Gone: ().
    """
    names = getattr(size, "_get_vars", None)
    return tuple(sorted(names())) if names is not None else ()


def hlo_text(module: Any, editable: bool = False) -> str:
    """Returns HLO text as XLA prints compiled modules: with metadata, large constants elided.

    Args:
        module: An HLO module of XLA.
        editable: Whether XLA is to read it again: constants in full, no metadata.

    Gone: the text as XLA prints it, with constants in full.
    """
    try:
        from jaxlib import _hlo

        options = _hlo.HloPrintOptions()
        options.print_large_constants = editable
        options.print_metadata = not editable
        return str(module.to_string(options))
    except (ImportError, AttributeError):
        return str(module.to_string())
