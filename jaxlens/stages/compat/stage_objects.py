"""Reads private attributes of JAX's stage objects.

Tested with jax 0.10.2 and 0.12.0.1.
"""

import copy
from typing import Any


def argument_names(stage: Any) -> tuple[str, ...]:
    """Returns the names of the argument leaves ("params['w']") of a Traced, Lowered or Compiled.

    Gone: (), and the leaves are named by position.
    """
    try:
        if hasattr(stage, "jaxpr"):
            return tuple(stage.jaxpr.jaxpr.debug_info.arg_names)
        if hasattr(stage, "_lowering"):
            told = stage._lowering.compile_args["all_args_info"]
        else:
            told = stage._executable._all_args_info
        return tuple(told.debug_info.arg_names)
    except (AttributeError, KeyError, TypeError):
        return ()


def devices_of(stage: Any) -> tuple[Any, ...]:
    """Returns the devices of a Lowered or Compiled, also those absent from this process.

    Gone: (), and the default device of JAX is used instead.
    """
    try:
        if hasattr(stage, "_lowering"):
            return tuple(stage._lowering._device_list)
        return tuple(stage.runtime_executable().local_devices())
    except (AttributeError, TypeError, NotImplementedError, RuntimeError):
        return ()


def argument_places(traced: Any) -> tuple[Any, ...]:
    """Returns objects with the `sharding` and `committed` of each argument of a Traced.

    Gone: (), and the default device of JAX is used instead.
    """
    found = getattr(traced, "_meta_tys_flat", ())
    return tuple(leaf for leaf in found if hasattr(leaf, "sharding"))


def own_copy(lowered: Any) -> Any:
    """Copies a Lowered and its module, so that the locations of the copy can be changed.

    Gone: None; the program is compiled without stamps.
    """
    try:
        from jaxlib.mlir import ir

        module = lowered.compiler_ir("stablehlo")
        made, inside = copy.copy(lowered), copy.copy(lowered._lowering)
        with module.context:
            inside._hlo = ir.Module.parse(_bytecode(module))
        inside._executable = None
        made._lowering = inside
        return made if made.compiler_ir("stablehlo") is inside._hlo else None
    except (ImportError, AttributeError, TypeError, ValueError):
        return None


def _bytecode(module: Any) -> bytes:
    import io

    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()
