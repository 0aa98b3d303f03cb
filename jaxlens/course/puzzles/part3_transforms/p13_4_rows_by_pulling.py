"""Puzzle 13.4, on jaxlens.core."""

from dataclasses import replace
from typing import Any

import numpy as np

import jaxlens
from jaxlens import core
from jaxlens.course.puzzle import Fact, Facts, Function, Proof, Puzzle, WrongAnswer, at_most, close


def check(jacobian: Function) -> Facts:
    from jaxlens.core import numpy as cnp

    w = np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 0.1]], np.float32)
    sines = []

    def f(x: Any) -> Any:
        return cnp.sin(x) @ w

    def note(event: Any) -> None:
        if event.kind == "rule" and event.name == "sin":
            sines.append(event)

    x = np.array([0.3, -1.0, 2.0], np.float32)
    try:
        with core.listen(note):
            result = jacobian(f, cnp.array(x))
    except (TypeError, ValueError) as error:
        if "JAX's" not in str(error) and "__jax_array__" not in str(error):
            raise
        hint = "`f` is made of operations of the core: use core.vjp, core.vmap and cnp."
        yield Fact("jacobian(f, x)", "an array", "an error of JAX", False, hint)
        return
    right = (np.cos(x)[:, None] * w).T
    hint = "Shape (2, 3): a row for each of the two results. `pull` of one unit vector is one row."
    if np.shape(result) == (3, 2) and np.allclose(result, right.T, rtol=1e-3):
        hint = "It is the transpose: a row belongs to a result, a column to an input."
    fact = close("jacobian(f, x)", result, right, rtol=1e-3, hint=hint)
    if fact.holds:
        other = np.array([1.0, 0.5, -0.2], np.float32)
        right = (np.cos(other)[:, None] * w).T
        again = jacobian(f, cnp.array(other))
        hint = "At another x it is another matrix."
        fact = close("jacobian(f, x) at two points", again, right, rtol=1e-3, hint=hint)
    if traces(jacobian, f, x):
        proof = Proof(jaxlens.jaxpr, (core.jit(lambda x: jacobian(f, x)), x))
        fact = replace(fact, evidence=proof)
    yield fact
    hint = "Call core.vjp once: its `pull` may be used for every row."
    yield at_most("forward passes", len(sines), 1, hint=hint, evidence=fact.evidence)


def traces(jacobian: Function, f: Function, x: Any) -> bool:
    """Whether an answer can be shown as a program: one that stacks rows in NumPy cannot."""
    try:
        return core.make_jaxpr(lambda x: jacobian(f, x))(x) is not None
    except (TypeError, ValueError):
        return False


SOLUTION = """\
def jacobian(f, x):
    y, pull = core.vjp(f, x)
    units = cnp.eye(y.size)
    return core.vmap(lambda ct: pull(ct)[0])(units)
"""

PUZZLE = Puzzle(
    id="13.4",
    title="Rows by pulling",
    task="""\
`core.vjp(f, x)` runs `f` forward and returns the result and `pull`. `pull(ct)` goes backward and
returns a tuple with one cotangent for each input. Use it to make the whole Jacobian, for a vector
`x` and a vector of results, with **one** run forward.
""",
    starter="""\
def jacobian(f, x):
    y, pull = core.vjp(f, x)
    ...  # pull back what, and how often?
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            """\
def jacobian(f, x):
    y, pull = core.vjp(f, x)
    return pull(cnp.ones(y.size))[0]
""",
            "one unit vector is one row",
        ),
        WrongAnswer(
            """\
def jacobian(f, x):
    y, pull = core.vjp(f, x)
    return cnp.stack([pull(ct)[0] for ct in cnp.eye(y.size)], 1)
""",
            "It is the transpose",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def jacobian(f, x):
    rows = f(x).size
    return cnp.stack([core.grad(lambda x: f(x)[i])(x) for i in range(rows)])
""",
            "Call core.vjp once",
        ),
    ),
    hints=(
        "What does `pull` return for (1, 0)? And for (0, 1)?",
        "The rows of `cnp.eye(y.size)` are the unit vectors. `core.vmap` runs a function on each.",
        "`core.vmap(lambda ct: pull(ct)[0])(cnp.eye(y.size))`.",
    ),
    check=check,
    after="That is jacrev: one run forward, and a batch of runs backward, one for each result.",
)
