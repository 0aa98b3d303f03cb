"""Primitives by how a measured run treats them, and how it names an equation."""

CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""Equations that are one call of a body, by primitive, with the parameter that has the body."""

LOOPS = ("scan", "while")
"""Primitives that run a body more than once."""

BODIES_MEASURED = frozenset({*CALLS, *LOOPS, "cond", "shard_map"})
"""Primitives whose bodies are measured; others with bodies are measured as a whole."""

MOVES = frozenset(
    "abs broadcast_in_dim copy neg new_ref pvary rev reshape squeeze transpose".split()
)
"""Primitives whose results have the elements of the first operand, but for order and sign.

A result has a NaN or an infinity where that operand has, so nothing is measured.
"""

Path = tuple[str, ...]
"""An equation within a run: the ids of the equations whose bodies lead to it, and its own id."""
