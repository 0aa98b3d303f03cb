"""Watching a program: `debug_nans`, an interpreter of ten lines, and `log_compiles`.

The first shows what an interpreter is for: it lies on what was there before (the device, or a
transformation), has each primitive computed there, and looks at the results. A jitted function is
opened, so that the primitive and its line are found in it.

    with debug_nans():
        grad(jit(f))(0.0)      # FloatingPointError: invalid value (nan) encountered in mul, ...
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jaxlens.core.kernel.interpreter import (
    Interpreter,
    Primitive,
    Tracer,
    current,
    interpreting,
)
from jaxlens.core.kernel.jaxpr import as_function
from jaxlens.core.kernel.run import jit_p
from jaxlens.core.kernel.sources import here
from jaxlens.core.kernel.types import is_inexact
from jaxlens.core.transforms.events import Event, listen


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
                    f"invalid value (nan) encountered in {primitive}, {here()}"
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
