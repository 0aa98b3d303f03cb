"""Watching a program: `debug_nans`, `debug.print` and `log_compiles`.

`debug_nans` is an interpreter of ten lines, and shows what an interpreter is for: it lies on what
was there before (the device, or a transformation), has each primitive computed there, and looks at
the results. A jitted function is opened, so that the primitive and its line are found in it.

    with debug_nans():
        grad(jit(f))(0.0)      # FloatingPointError: invalid value (nan) encountered in mul, ...
"""

import builtins
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.aot.device import callback
from jaxlens.core.aot.lower import GuestState
from jaxlens.core.kernel.interpreter import (
    GROUND,
    Interpreter,
    Primitive,
    Tracer,
    Value,
    current,
    interpreting,
    observer,
)
from jaxlens.core.kernel.jaxpr import as_function
from jaxlens.core.kernel.run import jit_p
from jaxlens.core.kernel.tree import tree_flatten
from jaxlens.core.kernel.types import is_inexact
from jaxlens.core.primitives.pieces import unstack
from jaxlens.core.transforms.events import Event, listen
from jaxlens.core.transforms.flags import split


class NaNCheck(Interpreter):
    """Computes with the interpreter below, and raises when a result has a nan."""

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive is jit_p:
            return as_function(params["jaxpr"])(*args)  # each equation comes here again
        with interpreting(self.parent):
            result = primitive.bind(*args, **params)
        for x in result if primitive.multiple_results else [result]:
            if not isinstance(x, Tracer) and is_inexact(x.dtype) and np.isnan(x).any():
                raise FloatingPointError(
                    f"invalid value (nan) encountered in {primitive}, {observer.line()}"
                )
        return result


@contextmanager
def debug_nans(on: bool = True) -> Iterator[None]:
    """Within it the first operation whose result has a nan raises a `FloatingPointError`.

    Every operation waits for its result; what is traced has no numbers to look at.
    """
    with interpreting(NaNCheck() if on else current()):
        yield


@contextmanager
def log_compiles(on: bool = True) -> Iterator[None]:
    """Within it each compilation of a jitted function is logged as a warning, as JAX does."""

    def log(event: Event) -> None:
        if event.kind == "compile":
            types = [aval.str_short() for aval in event.detail["executable"].in_avals]
            logging.getLogger("jaxlens.core").warning(
                "Compiling jit(%s) with global shapes and types (%s).", event.name, ", ".join(types)
            )

    with listen(log if on else lambda _: None):
        yield


# ---- print --------------------------------------------------------------------------------------

debug_print_p = Primitive("debug_print", multiple_results=True)
debug_print_p.abstract = lambda *avals, **params: []


def print(fmt: str, *args: Any, **kwargs: Any) -> None:
    """Prints when the program runs: `print("{x}", x=x)`, with the numbers of this run.

    Under `vmap` it prints once for each example, under `grad` the values. The order of two prints
    of a compiled program is XLA's. In a program that a lens of jaxlens compiles it does nothing.
    """
    leaves, in_tree = tree_flatten((args, kwargs))
    fixed = [not isinstance(x, Value | np.ndarray | np.generic | float | int) for x in leaves]
    arrays, _ = split(fixed, leaves)
    static = tuple((n, x) for n, x in enumerate(leaves) if fixed[n])
    _print(arrays, fmt=fmt, in_tree=in_tree, static_args=static)


def _print(leaves: Sequence[Any], **params: Any) -> list[Any]:
    if current() is GROUND:
        _printer(**params)(*map(np.asarray, leaves))
        return []
    done: list[Any] = debug_print_p.bind(*leaves, **params)
    return done


def _printer(fmt: str, in_tree: Any, static_args: Any, **_: Any) -> Callable[..., tuple[()]]:
    """Returns the function of the arrays that prints; JAX's equation has the same parameters."""

    def printing(*arrays: Any) -> tuple[()]:
        leaves = list(arrays)
        for n, value in static_args:
            leaves.insert(n, value)
        args, kwargs = in_tree.unflatten(leaves)
        builtins.print(fmt.format(*args, **kwargs))
        return ()

    return printing


@debug_print_p.rule("lower")
def _(ctx: Any, *operands: Any, **params: Any) -> list[Any]:
    if not isinstance(ctx.program, GuestState):
        target, number = callback(_printer(**params))
        index = ir.Attribute.parse(f"{number} : ui64")
        hlo.CustomCallOp(
            [],
            operands,
            call_target_name=target,
            has_side_effect=True,
            api_version=ir.Attribute.parse("4 : i32"),
            backend_config=ir.DictAttr.get({"index": index}),
        )
    return []


@debug_print_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    return _print(primals, **params), []


@debug_print_p.rule("batch")
def _(size: int, args: Any, dims: Any, **params: Any) -> Any:
    columns = [[x] * size if d is None else unstack(x, d) for x, d in zip(args, dims, strict=True)]
    for example in zip(*columns, strict=True):
        _print(example, **params)
    return [], []
