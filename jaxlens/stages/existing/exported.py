"""Captures of `jax.export.Exported`; symbolic sizes are named, and XLA compiles none of them."""

from dataclasses import replace
from typing import Any

from jaxlens.captures import Capture
from jaxlens.compat.lowering import symbols
from jaxlens.ir.facts import Input
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.stages.child.first_in_child import tried
from jaxlens.stages.existing.module_text import stablehlo_capture

_HOLDER = "a jax.export.Exported"


def of_exported(exported: Any, name: str) -> Capture:
    """Returns the capture of an Exported: StableHLO, compiled for this process if possible.

    Args:
        exported: The Exported.
        name: The program's name; "" for that of its function.

    Raises:
        ReadError: XLA ends its process on the module.
    """
    names = sorted({n for aval in exported.in_avals for d in aval.shape for n in symbols(d)})
    tried(exported.mlir_module_serialized)
    platform = exported.platforms[0] if len(exported.platforms) == 1 else ""
    own = name or exported.fun_name
    module = stablehlo.parse(exported.mlir_module_serialized)
    if not names:
        return stablehlo_capture(module, platform, own, _HOLDER)

    def named(leaves: tuple[Input, ...], avals: list[Any]) -> tuple[Input, ...]:
        """Has the sizes by their names, which StableHLO does not have."""
        if len(leaves) != len(avals):
            return leaves
        pairs = zip(leaves, avals, strict=True)
        return tuple(replace(leaf, type=type_of(aval)) for leaf, aval in pairs)

    return stablehlo_capture(
        module,
        platform,
        own,
        f"{_HOLDER} with symbolic sizes ({', '.join(names)})",
        unsized=f"sizes of it are symbolic ({', '.join(names)}), and XLA compiles numbers: look at "
        "jaxlens.capture(exported.call, x), with arrays; its StableHLO is there: "
        "jaxlens.hlo(cap, stage='stablehlo')",
        inputs=lambda leaves: named(
            leaves, [exported.in_avals[n] for n in exported.module_kept_var_idx]
        ),
        outputs=lambda leaves: named(leaves, list(exported.out_avals)),
    )
