"""Reads what the traced function of a jaxpr calls its parameters (`jaxpr.debug_info`)."""

from typing import Any

from jaxlens.ir.spans import describe


def function(jaxpr: Any) -> str:
    """Name of the function of a jaxpr; "" where it is unknown or JAX's own."""
    info = getattr(jaxpr, "debug_info", None)
    name, source = getattr(info, "func_name", ""), getattr(info, "func_src_info", "")
    if not (isinstance(name, str) and isinstance(source, str)):
        return ""
    # "cell at /home/me/model.py:12"
    file = source.partition(" at ")[2].rpartition(":")[0]
    return name if file and not describe(file).own else ""


def arguments(jaxpr: Any) -> tuple[str, ...]:
    """What that function calls each parameter, constants first; empty where nothing is known.

    A function of JAX's own has names too, but they are none that the user wrote.
    """
    names = getattr(getattr(jaxpr, "debug_info", None), "arg_names", None)
    if not isinstance(names, tuple) or len(names) != len(jaxpr.invars) or not function(jaxpr):
        return ()
    names = tuple(name if isinstance(name, str) else "" for name in names)
    return ("",) * len(jaxpr.constvars) + names if any(names) else ()
