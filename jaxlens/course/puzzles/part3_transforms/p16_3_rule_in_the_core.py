"""Puzzle 16.3, on jaxlens.core."""

from dataclasses import replace

import numpy as np

import jaxlens
from jaxlens import core
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    close,
    edited,
    equal,
)


def check(log1pexp: Function) -> Facts:
    kind = type(log1pexp(0.5))
    if not kind.__module__.startswith("jaxlens."):
        hint = "It is written with jax or NumPy: use core.custom_jvp, cnp.log and cnp.exp."
        yield Fact("type of the result", "an Array of core", kind.__name__, False, hint)
    ruled = isinstance(log1pexp, core.custom_jvp)
    hint = "It needs a rule of its own: `@core.custom_jvp`, and `@log1pexp.defjvp` for the rule."
    yield equal("made by core.custom_jvp", ruled, True, hint=hint)
    hint = "The function stays log(1 + exp(x))."
    for x in (-1.0, 0.5, 3.0):
        yield close(f"log1pexp({x})", log1pexp(x), np.logaddexp(0, x), hint=hint)
    _, change = core.jvp(log1pexp, (0.0,), (0.0,))
    hint = "When x does not change, neither does the result: the slope is multiplied by t."
    yield close("change at 0 along 0", change, 0.0, hint=hint)
    gradient = core.grad(log1pexp)
    for x in (0.0, 2.0):
        right = 1 / (1 + np.exp(-x))
        hint = "The derivative is exp(x) / (1 + exp(x)), which is also 1 - 1 / (1 + exp(x))."
        yield close(f"gradient at {x}", gradient(x), right, hint=hint)
    hint = "exp(100) is infinite in float32, and inf / inf is nan. 1 / inf is 0: use that."
    proof = Proof(jaxlens.jaxpr, (gradient, 100.0))
    for x, right in ((100.0, 1.0), (-100.0, 0.0)):
        yield replace(close(f"gradient at {x}", gradient(x), right, hint=hint), evidence=proof)


SOLUTION = """\
@core.custom_jvp
def log1pexp(x):
    return cnp.log(1.0 + cnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return log1pexp(x), (1.0 - 1.0 / (1.0 + cnp.exp(x))) * t
"""

PUZZLE = Puzzle(
    id="16.3",
    title="The same in the core",
    task="""\
`log(1 + exp(x))` grows like `x`, so its slope at 100 is 1. The chain rule says nan there. Give
`log1pexp` a rule of its own, with **`core.custom_jvp`**, whose gradient is right at 100 and at
-100 too.
""",
    starter="""\
def log1pexp(x):
    return cnp.log(1.0 + cnp.exp(x))
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            SOLUTION.replace("core.", "jax.").replace("cnp.", "jnp."),
            "use core.custom_jvp",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                ("(1.0 - 1.0 / (1.0 + cnp.exp(x))) * t", "cnp.exp(x) / (1.0 + cnp.exp(x)) * t"),
            ),
            "inf / inf is nan",
        ),
        WrongAnswer(
            edited(SOLUTION, ("(1.0 - 1.0 / (1.0 + cnp.exp(x))) * t", "t")), "The derivative is"
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                ("(1.0 - 1.0 / (1.0 + cnp.exp(x))) * t", "1.0 - 1.0 / (1.0 + cnp.exp(x))"),
            ),
            "multiplied by t",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def log1pexp(x):
    small = cnp.where(x > 50.0, 0.0, x)
    return cnp.where(x > 50.0, x, cnp.log(1.0 + cnp.exp(small)))
""",
            "core.custom_jvp",
        ),
    ),
    hints=(
        "`%jaxpr core.grad(log1pexp)(100.0)`: which equation divides infinity by infinity?",
        "Write the derivative so that exp(x) stands only in a divisor.",
        "`return log1pexp(x), (1.0 - 1.0 / (1.0 + cnp.exp(x))) * t`.",
    ),
    check=check,
    after="The rule replaces what the chain rule would give, and both modes use it.",
)
