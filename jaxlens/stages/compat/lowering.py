"""Lowering with large constants as arguments; the text of what was lowered."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jaxlens.stages.compat.private_modules import private


def constants_as_arguments() -> AbstractContextManager[Any]:
    """Within it, tracing keeps closed-over arrays as literals, which lowering can hoist.

    Gone: nothing is hoisted.
    """
    try:
        config = private("config")
        kept: AbstractContextManager[Any] = config.use_simplified_jaxpr_constants(True)
        return kept
    except (ImportError, AttributeError):
        return nullcontext()


def lower_hoisting(traced: Any, platforms: tuple[str, ...] | None) -> Any:
    """Lowers so that array literals become arguments, which JAX passes by itself at a call.

    Gone: an ordinary lowering, which copies the constants into the program.
    """
    try:
        mlir = private("interpreters.mlir")
        parameters = mlir.LoweringParameters(hoist_constants_as_args=True)
        return traced.lower(lowering_platforms=platforms, _private_parameters=parameters)
    except (ImportError, AttributeError, TypeError):
        return traced.lower(lowering_platforms=platforms)


def hlo_text(computation: Any) -> str:
    """Text of an HLO module as XLA prints compiled ones, with metadata and large constants elided.

    Args:
        computation: What `lowered.compiler_ir("hlo")` gives.

    Gone: JAX's own print, which writes constants in full.
    """
    try:
        from jaxlib import _hlo

        options = _hlo.HloPrintOptions()
        options.print_large_constants = False
        return str(computation.as_hlo_module().to_string(options))
    except (ImportError, AttributeError):
        return str(computation.as_hlo_text())
