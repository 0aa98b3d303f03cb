"""Puzzle 16.4, on jaxlens.core."""

from dataclasses import replace

import jaxlens
from jaxlens import core
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, close, edited


def check(cube: Function) -> Facts:
    x, small = 1.3, 1e-3
    yield close("cube(1.3)", cube(x), x**3)
    slope = ((x + small) ** 3 - (x - small) ** 3) / (2 * small)
    hint = "Finite differences say otherwise: what is the slope of x * x * x?"
    _, change = core.jvp(cube, (x,), (1.0,))
    fact = close("change along 1", change, slope, rtol=1e-3, hint=hint)
    yield replace(fact, evidence=Proof(jaxlens.jaxpr, (core.grad(cube), x)))
    hint = "It must grow with t: when x moves twice as far, so does the result."
    _, change = core.jvp(cube, (x,), (2.0,))
    yield close("change along 2", change, 2 * slope, rtol=1e-3, hint=hint)
    yield close("gradient", core.grad(cube)(x), 3 * x * x, rtol=1e-3)
    hint = "The rule is differentiated too, so it may use only what JAX can differentiate."
    second = core.grad(core.grad(cube))(x)
    fact = close("second derivative", second, 6 * x, rtol=1e-3, hint=hint)
    yield replace(fact, evidence=Proof(jaxlens.jaxpr, (core.grad(core.grad(cube)), x)))


SOLUTION = """\
from jaxlib.mlir.dialects import stablehlo

cube_p = core.Primitive("cube")


def cube(x):
    return cube_p.bind(x)


@cube_p.rule("abstract")  # the shape and dtype of the result
def _(x):
    return x


@cube_p.rule("lower")  # what XLA is told
def _(context, x):
    return stablehlo.multiply(x, stablehlo.multiply(x, x))


@cube_p.rule("jvp")  # the result, and how it changes when x changes by t
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube(x), 3.0 * x * x * t
"""

PUZZLE = Puzzle(
    id="16.4",
    title="A rule in the core",
    task="""\
`cube` is a new primitive of `jaxlens.core`: it has a rule for its type and one for XLA. Write its
**jvp rule**, which returns the result and how it changes when `x` changes by `t`. The gradient and
the second derivative follow from it.
""",
    starter=edited(SOLUTION, ("    return cube(x), 3.0 * x * x * t", "    return cube(x), t")),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(edited(SOLUTION, ("3.0 * x * x * t", "2.0 * x * x * t")), "x * x * x"),
        WrongAnswer(edited(SOLUTION, ("3.0 * x * x * t", "3.0 * x * x")), "grow with t"),
    ),
    cheats=(WrongAnswer(edited(SOLUTION, ("3.0 * x * x * t", "5.07 * t")), "second derivative"),),
    hints=(
        "The rules of your own `JVP` table have the same form: inputs, and their changes.",
        "The change is the slope at x times t, in operations that core can differentiate again.",
        "`return cube(x), 3.0 * x * x * t`.",
    ),
    check=check,
    after=(
        "One rule gave jvp, grad and grad of grad: the rule is made of operations that have rules "
        "themselves."
    ),
)
