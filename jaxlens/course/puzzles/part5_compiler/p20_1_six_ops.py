"""Puzzle 20.1."""

import jax.numpy as jnp

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Function, Proof, Puzzle, WrongAnswer

_HINTS = {
    "dot": "`@` is a dot.",
    "transpose": "`x.T` is a transpose.",
    "compare": "`x > 0` is a compare; `jnp.maximum` is an op of its own.",
    "select": "`jnp.where` is a select.",
    "exponential": (
        "`jnp.exp(x)` is one; NumPy's `np.exp(2.0)` is a constant, and `expm1` another op."
    ),
    "reduce": "A sum over an axis is a reduce.",
}


def check(f: Function) -> Facts:
    capture = jaxlens.capture(f, jnp.ones((4, 4)))
    found = {node.opcode for node in capture.hlo.module.nodes()}
    missing = [name for name in _HINTS if name not in found]
    there = [name for name in _HINTS if name in found]
    hint = f"Missing: {', '.join(missing)}. " + " ".join(_HINTS[name] for name in missing[:2])
    yield Fact(
        "ops of the list in HLO",
        ", ".join(_HINTS),
        ", ".join(there) or "none",
        not missing,
        hint,
        Proof(jaxlens.hlo, (capture,), {"stage": "hlo"}),
    )


PUZZLE = Puzzle(
    id="20.1",
    title="Six ops",
    task="""\
Write **one** function of `x`, an `f32[4,4]`, whose HLO before optimisation has all of `dot`,
`transpose`, `compare`, `select`, `exponential` and `reduce`. What it computes is up to you.
""",
    starter="""\
def f(x):
    return x @ x.T
""",
    solution="""\
def f(x):
    y = x @ x.T
    return jnp.exp(jnp.where(y > 0, y, 0.1 * y)).sum(axis=0)
""",
    wrong=(
        WrongAnswer(
            "def f(x):\n    return jnp.exp(jnp.maximum(x @ x.T, 0)).sum(axis=0)\n",
            "Missing: compare, select.",
        ),
        WrongAnswer(
            "def f(x):\n    y = x @ x\n    return jnp.exp(jnp.where(y > 0, y, 0.0)).sum()\n",
            "Missing: transpose.",
        ),
    ),
    cheats=(
        WrongAnswer(
            "def f(x):\n    y = x @ x.T\n    return jnp.where(y > 0, y, np.exp(2.0)).sum()\n",
            "Missing: exponential.",
        ),
    ),
    hints=(
        "`%hlo --stage hlo f(x)` for what you have: which of the six are there?",
        "The table above has a line of NumPy for each op.",
        "`jnp.where(y > 0, y, 0.0)` is two of them, `jnp.exp(...)` one, and `.sum()` one.",
    ),
    check=check,
    after="Two lines of NumPy, and six of the ops that most programs are made of.",
)
