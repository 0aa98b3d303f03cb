"""Puzzle 18.4, on `jaxlens.core`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, close, edited, equal


def check(grad_of_last: Function) -> Facts:
    xs = np.array([0.5, 2.0, 3.0, -1.0, 1.5], np.float32)

    def last(xs: Any) -> Any:
        return jax.lax.scan(lambda c, x: (c * x + x, None), jnp.float32(1), xs)[0]

    right = np.asarray(jax.grad(last)(xs))
    got = grad_of_last(xs)
    if np.shape(got) == right.shape and np.allclose(got, 1):
        hint = "The cotangents pass through as they come: the products `c * x` have a say too."
    elif np.shape(got) == right.shape and np.allclose(got, _without_the_second_way(xs)):
        hint = "x is read twice, in `c * x` and alone: the two cotangents are added."
    elif np.shape(got) == right.shape and np.allclose(got, _from_the_front(xs)):
        hint = "The cotangent comes from the end: `core.scan(..., reverse=True)` starts there."
    else:
        hint = "Each cotangent is ct times a slope of `c * x + x`: by the old c, and by x."
    yield close("gradient", got, right, hint=hint)
    proof = Proof(jaxlens.jaxpr, (grad_of_last, xs))
    scans = jaxlens.receipt(grad_of_last, xs).primitives.get("scan", 0)
    hint = "One scan forwards that stacks the carries, one back that uses them."
    yield equal("scans in the program", scans, 2, hint=hint, evidence=proof)


def _without_the_second_way(xs: Any) -> Any:
    """Returns the gradient of a learner who forgot that x is also added."""
    carries, cts = [1.0], [1.0]
    for x in xs:
        carries.append(carries[-1] * x + x)
    for x in xs[:0:-1]:
        cts.append(cts[-1] * x)
    return np.multiply(cts[::-1], carries[:-1])


def _from_the_front(xs: Any) -> Any:
    """Returns the gradient of a learner whose backward scan starts with the first step."""
    carries, cts = [1.0], [1.0]
    for x in xs:
        carries.append(carries[-1] * x + x)
        cts.append(cts[-1] * x)
    return np.multiply(cts[:-1], np.add(carries[:-1], 1))


_SOLUTION = """\
def grad_of_last(xs):
    def forward(c, x):
        return c * x + x, c

    def back(ct, step):
        c, x = step
        return ct * x, ct * (c + 1.0)

    _, carries = core.scan(forward, 1.0, xs)
    return core.scan(back, 1.0, (carries, xs), reverse=True)[1]
"""

PUZZLE = Puzzle(
    id="18.4",
    title="A scan backwards, in the program",
    task="""\
`core.scan` is `lax.scan` in the small JAX of this course. The loop is `c = c * x + x` from `c = 1`;
`grad_of_last(xs)` is the gradient of the last `c`. Write `back`, one step of the backward pass: it
takes the cotangent of the new `c`, and returns that of the old `c` and that of `x`.
""",
    starter=edited(
        _SOLUTION,
        ("return ct * x, ct * (c + 1.0)", "return ct, ct  # the cotangents of c and of x"),
    ),
    solution=_SOLUTION,
    wrong=(
        WrongAnswer(edited(_SOLUTION, (", reverse=True", "")), "comes from the end"),
        WrongAnswer(edited(_SOLUTION, ("ct * (c + 1.0)", "ct * c")), "x is read twice"),
        WrongAnswer(
            edited(_SOLUTION, ("ct * x, ct * (c + 1.0)", "x, c + 1.0")), "ct times a slope"
        ),
    ),
    cheats=(
        WrongAnswer(
            "def grad_of_last(xs):\n"
            "    return core.grad(lambda xs: functools.reduce("
            "lambda c, x: c * x + x, [xs[i] for i in range(len(xs))], 1.0))(xs)\n"
            "import functools\n",
            "scans in the program",
        ),
    ),
    hints=(
        "`%jaxpr core.grad(f)(xs)` shows the scan that the core makes of one of yours.",
        "c is read once, times x. x is read twice: times c, and alone. What comes back is added.",
        "The old c gets `ct * x`; x gets `ct * c + ct`.",
    ),
    check=check,
    after="The forward scan stacks what the backward one needs, and both are one equation each.",
)
