"""Lowering with large constants as arguments; the text of what was lowered."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from jaxlens.stages.compat.import_private import private


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
        with _each_constant_once():
            return traced.lower(lowering_platforms=platforms, _private_parameters=parameters)
    except (ImportError, AttributeError, TypeError):
        return traced.lower(lowering_platforms=platforms)


def hlo(lowered: Any) -> Any:
    """The HLO computation that XLA is given for a lowered program.

    JAX resolves shapes first where the program calls what `jax.export` made with symbolic shapes
    or for several platforms: StableHLO still has them, and `compiler_ir("hlo")`, which skips that,
    fails on most. (Tried: 0.10.2, 0.12.0.1.)

    Gone: what `compiler_ir("hlo")` gives.
    """
    try:
        state = lowered._lowering.compile_args["shape_poly_state"]
        if state is None or not state.uses_dim_vars:
            return lowered.compiler_ir("hlo")
        mlir = private("interpreters.mlir")
        from jaxlib import _jax

        refined = mlir.refine_polymorphic_shapes(lowered.compiler_ir("stablehlo"))
        written = mlir.module_to_bytecode(refined)
        return _jax.mlir.mlir_module_to_xla_computation(
            written, use_tuple_args=lowered._lowering.compile_args["tuple_args"]
        )
    except (ImportError, AttributeError, KeyError, TypeError):
        return lowered.compiler_ir("hlo")


@contextmanager
def _each_constant_once() -> Iterator[None]:
    """Within it, an array that several equations read becomes one argument.

    JAX 0.10.2 to 0.12.0.1 tells the constants of a body apart by the literal that holds them, of
    which each equation has its own, and so makes an argument of every reading. The other threads
    of the process see an answer that is as right for them. Gone: an argument for every reading.
    """
    try:
        core = private("core")
        every = core.jaxpr_const_args
    except (ImportError, AttributeError):
        yield
        return

    def once(jaxpr: Any) -> list[Any]:
        return list({(id(value), aval): (value, aval) for value, aval in every(jaxpr)}.values())

    core.jaxpr_const_args = once
    try:
        yield
    finally:
        core.jaxpr_const_args = every


def name_hoisted(lowered: Any, name_of: Callable[[Any], str]) -> None:
    """Names the arguments that hoisting made of constants, as JAX names the others.

    Args:
        lowered: A lowered program.
        name_of: Gives the name of a constant; "" for none.

    Gone: they are called after their numbers.
    """
    try:
        ir: Any = importlib.import_module("jax.extend.mlir.ir")
        module = lowered.compiler_ir("stablehlo")
        functions = [op for op in module.body.operations if "sym_name" in op.attributes]
        main = next(op for op in functions if op.attributes["sym_name"].value == "main")
        arguments = main.regions[0].blocks[0].arguments
        for argument, value in zip(arguments, lowered._lowering.const_args, strict=False):
            if name := name_of(value):
                argument.set_location(ir.Location.name(name, context=module.context))
    except (ImportError, AttributeError, StopIteration):
        return


def hlo_text(computation: Any) -> str:
    """Text of an HLO module as XLA prints compiled ones, with metadata and large constants elided.

    Args:
        computation: What `hlo` gives.

    Gone: JAX's own print, which writes constants in full.
    """
    try:
        from jaxlib import _hlo

        options = _hlo.HloPrintOptions()
        options.print_large_constants = False
        return str(computation.as_hlo_module().to_string(options))
    except (ImportError, AttributeError):
        return str(computation.as_hlo_text())
