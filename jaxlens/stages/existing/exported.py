"""Captures of `jax.export.Exported`, also with symbolic sizes: as they are, or for numbers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax

from jaxlens.call import isolate
from jaxlens.captures import Capture
from jaxlens.compat.lowering import number, refined_module, symbols
from jaxlens.errors import OptionError, first_line
from jaxlens.ir.facts import Input
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.stages.child.first_in_child import tried
from jaxlens.stages.existing.module_text import stablehlo_capture

_HOLDER = "a jax.export.Exported"


def of_exported(exported: Any, name: str, sizes: Mapping[str, int] | None = None) -> Capture:
    """Returns the capture of an Exported: StableHLO, compiled for this process if possible.

    Args:
        exported: The Exported.
        name: The program's name; "" for that of its function.
        sizes: Numbers for its symbolic sizes; None for the program as it is, which XLA does not
            compile if it has some.

    Raises:
        OptionError: The sizes are not those that are symbolic, or do not fit its constraints.
        ReadError: XLA ends its process on the module.
    """
    names = sorted({n for aval in exported.in_avals for d in aval.shape for n in symbols(d)})
    if sizes is not None:
        _check(names, sizes)
    tried(exported.mlir_module_serialized)
    platform = exported.platforms[0] if len(exported.platforms) == 1 else ""
    own = name or exported.fun_name
    if sizes:
        held = ", ".join(f"{n}={sizes[n]}" for n in names)
        return stablehlo_capture(_sized(exported, sizes), platform, own, f"{_HOLDER} for {held}")
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
        unsized=f"sizes of it are symbolic ({', '.join(names)}), and XLA compiles numbers: "
        f"jaxlens.capture(exported, sizes={dict.fromkeys(names, 8)}); its StableHLO is there: "
        "jaxlens.hlo(cap, stage='stablehlo')",
        inputs=lambda leaves: named(
            leaves, [exported.in_avals[n] for n in exported.module_kept_var_idx]
        ),
        outputs=lambda leaves: named(leaves, list(exported.out_avals)),
    )


def _check(names: list[str], sizes: Mapping[str, int]) -> None:
    """Raises OptionError if sizes are not numbers for exactly the symbolic ones."""
    if not names:
        raise OptionError("no size of this program is symbolic: leave sizes out")
    numbers = [n for n in sizes.values() if isinstance(n, int) and n > 0]
    if sorted(sizes) != names or len(numbers) != len(names):
        raise OptionError(
            f"expected a number for each symbolic size ({', '.join(names)}), got {dict(sizes)}: "
            f"sizes={dict.fromkeys(names, 8)}"
        )


def _sized(exported: Any, sizes: Mapping[str, int]) -> Any:
    """Returns the StableHLO of an Exported for numbers, as JAX refines it where it is called."""
    struct: Any = jax.ShapeDtypeStruct
    leaves = [
        struct([number(size, sizes) for size in aval.shape], aval.dtype)
        for aval in exported.in_avals
    ]
    args, kwargs = jax.tree.unflatten(exported.in_tree, leaves)
    try:
        with isolate.untouched(isolate.context()):
            traced: Any = jax.jit(exported.call).trace(*args, **kwargs)
            return refined_module(traced.lower(lowering_platforms=exported.platforms[:1]))
    except Exception as error:  # JAX's, which also says where a constraint does not hold
        raise OptionError(
            f"the program is not for sizes={dict(sizes)}: {first_line(error, 200)}"
        ) from None
