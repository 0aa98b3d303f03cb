"""Names of `jax.extend`, read from the modules that they come from.

From jax 0.12 on, importing `jax.extend` imports Pallas, whose settings become part of the key of
every trace: functions that were compiled before would be compiled again.
"""

import importlib
from typing import Any

from jaxlens.compat.import_private import private

# The modules that define each public name, all of which `import jax` imports.
_SOURCES = {
    "backend": ("xla_bridge", "interpreters.pxla", "compiler"),
    "core": ("core",),
    "core.primitives": ("ad_checkpoint",),
    "source_info_util": ("source_info_util",),
}


def extend(module: str, name: str) -> Any:
    """Returns a name of `jax.extend`: `extend("core", "Primitive")`.

    Gone: the name is imported from `jax.extend`, with that cost.
    """
    for source in _SOURCES[module]:
        try:
            return getattr(private(source), name)
        except (ImportError, AttributeError):
            continue
    return getattr(importlib.import_module(f"jax.extend.{module}"), name)


def mlir_bindings() -> Any:
    """Returns MLIR's Python bindings, `jax.extend.mlir.ir`.

    Gone: they are imported from `jax.extend`, with that cost.
    """
    try:
        return importlib.import_module("jaxlib.mlir.ir")
    except ImportError:
        return importlib.import_module("jax.extend.mlir.ir")
