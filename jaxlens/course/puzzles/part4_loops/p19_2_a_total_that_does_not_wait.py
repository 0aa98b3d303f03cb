"""Puzzle 19.2."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_most, close

_ADDS = {"add", "add_any", "sub", "reduce_sum", "cumsum", "dot_general", "reduce_window_sum"}


def additions_in_a_row(f: Function, *args: Any) -> float:
    """Returns how many additions at most wait for one another; a loop counts each of its steps.

    Args:
        f: A function.
        *args: Its arguments.
    """
    return _longest(jax.make_jaxpr(f)(*args).jaxpr)


def _longest(jaxpr: Any) -> float:
    depths: dict[Any, float] = {}
    for eqn in jaxpr.eqns:
        before = max((depths.get(x, 0) for x in eqn.invars if not hasattr(x, "val")), default=0)
        bodies = [
            getattr(body, "jaxpr", body)
            for value in eqn.params.values()
            for body in (value if isinstance(value, tuple | list) else (value,))
            if hasattr(getattr(body, "jaxpr", body), "eqns")
        ]
        inner: float = max(map(_longest, bodies), default=eqn.primitive.name in _ADDS)
        if eqn.primitive.name == "scan":
            inner *= eqn.params["length"]
        elif eqn.primitive.name == "while":
            inner = math.inf  # nobody knows how often
        depths |= dict.fromkeys(eqn.outvars, before + inner)
    return max(depths.values(), default=0)


def check(totals: Function) -> Facts:
    hint = "Element i is the sum of x[0] to x[i]."
    for size in (8, 4, 32):
        x = np.arange(1.0, size + 1, dtype=np.float32)
        yield close(f"totals of 1 to {size}", jax.jit(totals)(x), np.cumsum(x), hint=hint)
    x = np.sin(np.arange(32.0)).astype(np.float32)
    yield close("totals of other numbers", jax.jit(totals)(x), np.cumsum(x), rtol=1e-3, hint=hint)
    ones = jnp.ones(32)
    proof = Proof(jaxlens.jaxpr, (totals, jnp.ones(8)))
    row = additions_in_a_row(totals, ones)
    primitives = {eqn.primitive.name for eqn in jax.make_jaxpr(totals)(ones).jaxpr.eqns}
    hint = (
        "A loop in the program is short to write, and each step still waits for the one before."
        if "scan" in primitives or "while" in primitives
        else "Each sum needs the one before. Which numbers could be added at the same time?"
    )
    name = "additions that wait for one another, for 32 numbers"
    yield at_most(name, row, 20, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="19.2",
    title="A total that does not wait",
    task="""\
`totals(x)` returns the running totals of `x`. Each addition waits for the one before: of 32
numbers, the last has 31 before it. Write it so that **at most 20** additions wait for one another.
""",
    starter="""\
def totals(x):
    sums = [x[0]]
    for i in range(1, len(x)):
        sums.append(sums[-1] + x[i])
    return jnp.stack(sums)
""",
    solution="""\
def totals(x):
    return lax.associative_scan(jnp.add, x)
""",
    wrong=(
        WrongAnswer(
            """\
def totals(x):
    def step(total, x):
        return total + x, total + x

    return lax.scan(step, 0.0, x)[1]
""",
            "each step still waits",
        ),
        WrongAnswer(
            """\
def totals(x):
    while len(x) > 1:
        x = x[0::2] + x[1::2]
    return x
""",
            "shape (8,), got shape (1,)",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def totals(x):
    return x * (x + 1) / 2
""",
            "of other numbers",
        ),
    ),
    hints=(
        "`%jaxpr --graph totals(x)`: how long is the longest way from top to bottom?",
        "A scan has few equations and as many steps as before. The brackets of a sum may be moved.",
        "`lax.associative_scan` takes the operator and the array.",
    ),
    check=check,
    after=(
        "The tree of `lax.associative_scan` has five rounds to the total and five back. "
        "For sums there is `jnp.cumsum`, one equation."
    ),
)
