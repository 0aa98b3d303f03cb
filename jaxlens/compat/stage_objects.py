"""Reads private attributes of JAX's stage objects.

Tested with jax 0.10.2 and 0.12.0.1.
"""

import copy
import io
from collections.abc import Mapping
from typing import Any

import jax

from jaxlens.compat.extend import extend
from jaxlens.compat.import_private import when_gone


@when_gone((), KeyError, TypeError)
def argument_names(stage: Any) -> tuple[str, ...]:
    """Returns the names of the argument leaves ("params['w']") of a Traced, Lowered or Compiled.

    Gone: (), and the leaves are named by position.
    """
    if hasattr(stage, "jaxpr"):
        holder = stage.jaxpr.jaxpr
    elif hasattr(stage, "_lowering"):
        holder = stage._lowering.compile_args["all_args_info"]
    else:
        holder = stage._executable._all_args_info
    return tuple(holder.debug_info.arg_names)


@when_gone(None, TypeError, ValueError)
def as_traced(jaxpr: Any, params: Mapping[str, Any]) -> Any:
    """Returns the Traced of a jaxpr that JAX lowers on its own, such as a backward pass.

    Args:
        jaxpr: The jaxpr, which is traced again for its pytrees.
        params: What else it is lowered with, by name, as in `events.LOWERING`.

    Gone: None.
    """
    struct: Any = jax.ShapeDtypeStruct
    shapes = [struct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    traced: Any = jax.jit(extend("core", "jaxpr_as_fun")(jaxpr)).trace(*shapes)
    traced._params = {**traced._params, **params, "jaxpr": jaxpr}
    return traced


@when_gone((), TypeError, NotImplementedError, RuntimeError)
def devices_of(stage: Any) -> tuple[Any, ...]:
    """Returns the devices of a Lowered or Compiled, also those absent from this process.

    Gone: (), and the default device of JAX is used instead.
    """
    if hasattr(stage, "_lowering"):
        return tuple(stage._lowering._device_list)
    return tuple(stage.runtime_executable().local_devices())


@when_gone(None, KeyError)
def options_of(lowered: Any) -> Any:
    """Returns the compiler options that `jax.jit` was given for a Lowered.

    None if its program calls Python functions, since equal text may call others.

    Gone: None.
    """
    lowering = lowered._lowering
    return None if lowering.compile_args["host_callbacks"] else lowering._compiler_options_kvs


@when_gone(None, KeyError, TypeError)
def kept_arguments(lowered: Any) -> tuple[tuple[Any, ...], list[int]]:
    """Returns the arrays that a Lowered passes first, and the indices of the leaves that follow.

    JAX leaves out arguments that the program does not read, and hoists large constants.

    Gone: None; the leaves are taken to be all that is passed.
    """
    lowering = lowered._lowering
    return tuple(lowering.const_args), sorted(lowering.compile_args["kept_var_idx"])


def argument_places(traced: Any) -> tuple[Any, ...]:
    """Returns objects with the `sharding` and `committed` of each argument of a Traced.

    Gone: (), and the default device of JAX is used instead.
    """
    types = getattr(traced, "_meta_tys_flat", ())
    return tuple(leaf for leaf in types if hasattr(leaf, "sharding"))


@when_gone(None, TypeError, ValueError)
def own_copy(lowered: Any) -> Any:
    """Copies a Lowered and its module, so that the locations of the copy can be changed.

    Gone: None; the program is compiled without stamps.
    """
    from jaxlib.mlir import ir

    module = lowered.compiler_ir("stablehlo")
    copied, lowering = copy.copy(lowered), copy.copy(lowered._lowering)
    with module.context:
        lowering._hlo = ir.Module.parse(bytecode(module))
    lowering._executable = None
    copied._lowering = lowering
    return copied if copied.compiler_ir("stablehlo") is lowering._hlo else None


def bytecode(module: Any) -> bytes:
    """Returns a module as MLIR bytecode, with its locations, which contain the stamps.

    Gone: AttributeError; these are public names.
    """
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()
