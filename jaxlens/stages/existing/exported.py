"""Captures of `jax.export.Exported`."""

from typing import Any

from jaxlens.captures import Capture
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.stages.child.first_in_child import tried
from jaxlens.stages.existing.module_text import stablehlo_capture


def of_exported(exported: Any, name: str) -> Capture:
    """Returns the capture of an Exported: StableHLO, compiled for this process if possible.

    Args:
        exported: The Exported.
        name: The program's name; "" for that of its function.

    Raises:
        ReadError: XLA ends its process on the module.
    """
    tried(exported.mlir_module_serialized)
    platform = exported.platforms[0] if len(exported.platforms) == 1 else ""
    module = stablehlo.parse(exported.mlir_module_serialized)
    own = name or exported.fun_name
    return stablehlo_capture(module, platform, own, "a jax.export.Exported")
