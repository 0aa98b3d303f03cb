"""Donation in a program: which results lie in the buffer of an input, and the option that donates.

XLA writes the aliases of the optimised module into its first line (`input_output_alias`).
"""

import re
from collections.abc import Sequence

from jaxlens.ir.graph import Module

_ALIAS = re.compile(r"\{\s*+(\d*+)[\d, ]*+\}: \((\d++), \{[\d, ]*+\}")
OF_ALL = "eqx.filter_jit"  # whose option donates all arguments


def aliases(module: Module) -> dict[int, int]:
    """Returns the index of the result that lies in an input's buffer, by parameter number."""
    found = _ALIAS.findall(module.attrs.get("input_output_alias", ""))
    return {int(parameter): int(result or 0) for result, parameter in found}


def option(roots: Sequence[str], jit: str) -> str:
    """Returns the option of a jit that donates arguments: `donate_argnames=('x',)`.

    Args:
        roots: Names of the arguments.
        jit: The jit, as `Program.jit` names it.
    """
    if jit == OF_ALL:
        return 'donate="all"'
    if "args" in roots:
        return "donate_argnums=..."  # of `*args`, which JAX refuses by name
    names = ", ".join(f"{root!r}" for root in roots) + ("," if len(roots) == 1 else "")
    return f"donate_argnames=({names})"
