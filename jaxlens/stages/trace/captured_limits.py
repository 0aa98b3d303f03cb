"""Limits the size of captured arrays with which a program is lowered and compiled.

JAX copies a captured array into the program, XLA copies it again, and computes with it while it
compiles. Measured on XLA:CPU for float32, without and with much of that: 50 MB take 0.4 to 18 s
and 0.2 to 0.5 GB, 200 MB take 2.5 to 12 s and 0.6 to 1.8 GB. Beyond a limit only the jaxpr is
shown: the same function with the arrays as arguments has all stages.
"""

from collections.abc import Sequence

from jaxlens.ir.facts import Constant
from jaxlens.report import amount

MOST = 256 * 10**6  # bytes of captured arrays from which nothing is compiled


def refusal(name: str, constants: Sequence[Constant]) -> str:
    """Returns the message for a program that is not lowered, with what to do."""
    largest = max(constants, key=lambda constant: constant.bytes)
    size, more = amount(sum(constant.bytes for constant in constants)), len(constants) - 1
    arrays = f"`{largest.name}` ({largest.type}, {amount(largest.bytes)})"
    if more:
        arrays += f" and {more:,} other captured array{'s' if more > 1 else ''} ({size} in all)"
    return (
        f"jax.jit would copy {arrays} into the program of {name}, more than the {amount(MOST)} "
        f"that are compiled here: pass {'them as arguments' if more else 'it as an argument'}; the "
        "jaxpr is there"
    )
