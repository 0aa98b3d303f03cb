"""Prints an equation's parameters as short text that is the same in every run.

Parameters can be anything: shapes, dtypes, functions, meshes, whole jaxprs. Their text has no
address, no contents of an array, and a bounded length.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from jaxlens.ir.jaxpr.bodies import Finder, contents, opened
from jaxlens.ir.jaxpr.types import type_of

LIMIT = 300
_ELEMENTS = 64  # of one collection
_DEPTH = 6
_PLAIN = frozenset({int, bool, float, complex, str, type(None)})
_COLLECTIONS = frozenset({tuple, list, set, frozenset})
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

Reference = Callable[[Any], str | None]
"""Gives the name of a jaxpr's region; None for other values."""


def _is_none(value: Any) -> bool:
    return value is None


def _all_none(values: Any) -> bool:
    return all(value is None for value in values)


def _all_unspecified(values: Any) -> bool:
    return all(type(value).__name__ == "UnspecifiedValue" for value in values)


# Parameters that JAX's own printer omits, and when. Their defaults differ between versions.
_UNSAID: Mapping[str, Callable[[Any], bool]] = {
    "accuracy": _is_none,
    "compiler_options_kvs": lambda value: not value,
    "ctx_mesh": lambda value: getattr(value, "empty", False),
    "donated_invars": lambda value: not any(value),
    "in_layouts": _all_none,
    "in_shardings": _all_unspecified,
    "inline": lambda value: True,
    "keep_unused": lambda value: not value,
    "out_dtype": _is_none,
    "out_layouts": _all_none,
    "out_sharding": _is_none,
    "out_shardings": _all_unspecified,
    "sharding": _is_none,
}


def unsaid(name: str, value: Any) -> bool:
    """Whether JAX's printer omits the parameter, because it has its default."""
    left_out = _UNSAID.get(name)
    return left_out is not None and left_out(value)


def printed(eqn: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the name and the parameters of an equation's operation, as JAX prints them.

    From jax 0.12 on those of a class where `call_hi_primitive` calls one (`Nonzero`).
    """
    operation = eqn.params.get("_prim")
    if hasattr(operation, "pp_params"):
        return type(operation).__name__, operation.pp_params()
    return eqn.primitive.name, with_counts(eqn)


def with_counts(eqn: Any) -> Mapping[str, Any]:
    """Returns an equation's parameters, those of a scan as `num_consts` and `num_carry`.

    From jax 0.12 on a scan has pytrees instead, `ft_in` and `ft_out`, which say the same. What it
    carries has the rank that it has in the body; what it walks along has one dimension more.
    """
    params: Mapping[str, Any] = eqn.params
    if eqn.primitive.name != "scan" or "num_carry" in params or "ft_in" not in params:
        return params
    body = opened(params["jaxpr"])
    outside, inside = (
        [[len(getattr(v.aval, "shape", ())) for v in values] for values in pair]
        for pair in ((eqn.invars, eqn.outvars), (body.invars, body.outvars))
    )
    rows = sum(outer > inner for outer, inner in zip(outside[0], inside[0], strict=True))
    carry = sum(outer == inner for outer, inner in zip(outside[1], inside[1], strict=True))
    rest = {name: value for name, value in params.items() if name not in ("ft_in", "ft_out")}
    return {**rest, "num_carry": carry, "num_consts": len(eqn.invars) - rows - carry}


def text(value: Any, reference: Reference) -> str:
    """The text of one parameter.

    Args:
        value: The parameter.
        reference: Names the jaxprs among the values.

    Returns:
        `str` of the value where it is short and stable; the name of a jaxpr's region or of a
        function; the type of an array.
    """
    if type(value) in _PLAIN:
        return bounded(str(value))
    return bounded(_text(value, reference, _DEPTH, top=True))


def bounded(text: str) -> str:
    """The text on one line, cut at `LIMIT` characters with the number left out."""
    line = " ".join(text.split()) if "\n" in text else text
    if len(line) <= LIMIT:
        return line
    return f"{line[:LIMIT]}... ({len(line) - LIMIT:,} more characters)"


def _text(value: Any, reference: Reference, depth: int, top: bool = False) -> str:
    """The text of a value, to a depth of `_DEPTH`: values can be nested deeper than the stack."""
    kind = type(value)
    if kind in _PLAIN:
        return str(value) if top else repr(value)
    if (name := reference(value)) is not None:
        return name
    if depth == 0:
        return "..."
    if kind in _COLLECTIONS:
        return _collection(value, reference, depth)
    if kind is dict:
        items = list(value.items())[:_ELEMENTS]
        parts = [f"{key!s}: {_text(part, reference, depth - 1)}" for key, part in items]
        return "{" + ", ".join(parts) + "}"
    if (structure := _structure(value, reference, depth)) is not None:
        return structure
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        try:
            return f"<{type_of(value)}>" if tuple(value.shape) else str(value.item())
        except Exception:  # an abstract value has no item
            return f"<{type_of(value)}>"
    wrapped = getattr(value, "func", None)  # functools.partial
    inner = getattr(value, "debug_info", None)
    for holder, attribute in ((inner, "func_name"), (value, "__name__"), (wrapped, "__name__")):
        name = getattr(holder, attribute, None)
        if isinstance(name, str) and name:
            return name
    try:
        return _ADDRESS.sub("", str(value))
    except Exception:  # a user's own __repr__
        return type(value).__name__


def _collection(value: Any, reference: Reference, depth: int) -> str:
    parts = [_text(part, reference, depth - 1) for part in list(value)[:_ELEMENTS]]
    if isinstance(value, set | frozenset):
        parts.sort()
    if len(value) > _ELEMENTS:
        parts.append(f"... ({len(value) - _ELEMENTS:,} more)")
    inside = ", ".join(parts)
    if isinstance(value, list):
        return f"[{inside}]"
    if isinstance(value, tuple):
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return f"{{{inside}}}"


def _structure(value: Any, reference: Reference, depth: int) -> str | None:
    """A named tuple or dataclass that contains jaxprs, these by name; None for other values.

    Without jaxprs, the `str` of the value is used.
    """
    inside = contents(value)
    if not inside or not any(reference(jaxpr) for _, jaxpr in Finder().jaxprs({"": value})):
        return None
    parts = (
        f"{key}={_text(part, reference, depth - 1)}" if key else _text(part, reference, depth - 1)
        for key, part in inside[:_ELEMENTS]
    )
    return f"{type(value).__name__}({', '.join(parts)})"
