"""Builds the `Stage` of a jaxpr."""

from typing import Any

from jaxlens.call import isolate
from jaxlens.ir.facts import Stage
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr import reader as jaxpr
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.trace import modules, stamp


def stage_of_jaxpr(program: Any, name: str) -> Stage:
    """Returns the stage of a jaxpr of JAX or of `jaxlens.core`."""

    def read() -> Module:
        with stamp.none():
            return jaxpr.read(program, name, scope=_scope, modules=modules.within)

    return Stage(BY_NAME["jaxpr"], lambda: _printed(program), read)


def _scope(stack: Any) -> str:
    """Returns a name stack as text; a name stack of `jaxlens.core` is a tuple of names."""
    return "/".join(stack) if isinstance(stack, tuple) else str(stack)


def _printed(program: Any) -> str:
    with isolate.deeper(), stamp.none():
        if not hasattr(program, "pretty_print"):  # a jaxpr of jaxlens.core
            return str(program)
        return str(program.pretty_print(use_color=False))
