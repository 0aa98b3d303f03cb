"""Puzzle 21.1."""

import jax.numpy as jnp

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Function, Proof, Puzzle, WrongAnswer, at_most

_HINTS = {
    "fused": "Two elementwise operations in a row become one kernel.",
    "merged": "Write the same expression twice.",
    "folded": "An equation on constants only: `jnp.sqrt(2.0)`. Python's `2.0 ** 0.5` makes none.",
    "dead": "Compute something, and do not use it.",
    "kept": "A matrix product runs by itself.",
}


def check(f: Function) -> Facts:
    capture = jaxlens.capture(f, jnp.ones((4, 4)), jnp.ones((4, 4)))
    proof = Proof(jaxlens.hlo, (capture,), {"stage": "optimized"})
    fates = [capture.links.fate(node.id).name for node in capture.jaxpr.module.nodes()]
    missing = [name for name in _HINTS if name not in fates]
    hint = f"Missing: {', '.join(missing)}. " + " ".join(_HINTS[name] for name in missing[:2])
    yield Fact(
        "fates of its equations",
        ", ".join(_HINTS),
        ", ".join(dict.fromkeys(fates)) or "no equations",
        not missing,
        hint,
        proof,
        backends=("cpu",),
    )
    hint = "Which fate is met twice? One of the two may go."
    yield at_most("equations", len(fates), 8, hint=hint, evidence=proof)


_SOLUTION = """\
def f(x, y):
    unused = jnp.exp(x)
    h = x @ y
    s = jnp.sqrt(2.0)
    return h * s + h * s
"""

PUZZLE = Puzzle(
    id="21.1",
    title="Five fates",
    task="""\
`layer` above meets five fates in nine equations. Write a function of two matrices, `f32[4,4]` each,
that does it in **eight or fewer**: one is kept, others are fused, merged, folded and dead.
""",
    starter="""\
def f(x, y):
    return jnp.tanh(x @ y)
""",
    solution=_SOLUTION,
    wrong=(
        WrongAnswer(
            "def f(x, y):\n    h = jnp.tanh(x @ y)\n    return (h * 2.0 + h * 2.0).sum()\n",
            "Missing: folded, dead.",
        ),
        WrongAnswer(_SOLUTION.replace("x @ y", "x * y"), "Missing: kept."),
        WrongAnswer(_SOLUTION.replace("x @ y", "jnp.tanh(x @ y)"), "equations, wanted at most 8"),
    ),
    cheats=(
        WrongAnswer(
            _SOLUTION.replace("jnp.sqrt(2.0)", "2.0 ** 0.5"),
            "Python's `2.0 ** 0.5` makes none",
        ),
    ),
    hints=(
        "The cell above that prints fates works for any function: run it on yours.",
        "Which equations of `layer` share a fate with another? Leave one out, and look again.",
        "Without `tanh`, the two products are still fused with the sum.",
    ),
    check=check,
    after="Only two of the five cost anything when the program runs.",
)
