"""Puzzle 10.2, of the learner's own JAX."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxlens.course.puzzle import Fact, Puzzle, WrongAnswer, close, edited


def check(jvp: Callable[..., Any], apply: Callable[..., Any]) -> Iterator[Fact]:
    x = np.array([[0.5, -1.5], [2.0, 1.0]])
    y = np.array([[1.0, 3.0], [-2.0, 0.5]])
    dx, dy = np.array([[1.0, 4.0], [2.0, -1.0]]), np.array([[0.5, 1.0], [0.0, 2.0]])
    _, change = jvp(lambda x, y: x * y, (x, y), (dx, dy))
    yield close("change of x * y", change, dx * y + x * dy, hint="The product rule has two terms.")
    _, change = jvp(lambda x, y: x @ y, (x, y), (dx, dy))
    yield close("change of x @ y", change, dx @ y + x @ dy, hint="It is the product rule with @.")
    _, change = jvp(lambda x: apply("sin", x), (x,), (dx,))
    hint = "The slope is cos(x): multiply it by how much x changes."
    yield close("change of sin(x)", change, np.cos(x) * dx, hint=hint)
    _, change = jvp(lambda x: apply("relu", x), (x,), (dx,))
    hint = "relu is flat for x < 0: nothing changes there."
    yield close("change of relu(x)", change, np.where(x > 0, dx, 0.0), hint=hint)
    small = 1e-6

    def f(w: Any) -> Any:
        return (w @ y) * (w @ y) + w

    _, change = jvp(f, (x,), (dx,))
    differences = (f(x + small * dx) - f(x - small * dx)) / (2 * small)
    hint = "Finite differences say otherwise."
    yield close("change of (w @ y) * (w @ y) + w", change, differences, rtol=1e-3, hint=hint)


SOLUTION = """\
def cos(x):
    return apply("cos", x)


def exp(x):
    return apply("exp", x)


def step(x):
    return apply("step", x)


JVP = {
    "add": lambda x, y, dx, dy: dx + dy,
    "mul": lambda x, y, dx, dy: dx * y + x * dy,
    "dot": lambda x, y, dx, dy: dx @ y + x @ dy,
    "sin": lambda x, dx: dx * cos(x),
    "exp": lambda x, dx: dx * exp(x),
    "relu": lambda x, dx: dx * step(x),
}


def jvp(f, primals, tangents):
    program = trace(f, *map(np.shape, primals))
    values = dict(zip(program.inputs, primals))
    changes = dict(zip(program.inputs, tangents))
    for eqn in program.eqns:
        inputs = [read(values, x) for x in eqn.inputs]
        moved = [changes[x] if isinstance(x, str) else np.zeros(np.shape(x)) for x in eqn.inputs]
        values[eqn.output] = apply(eqn.op, *inputs)
        changes[eqn.output] = JVP[eqn.op](*inputs, *moved)
    return values[program.output], changes[program.output]
"""

PUZZLE = Puzzle(
    id="10.2",
    title="Derivatives forwards",
    task="""\
`jvp` runs a program and computes, beside each value, its tangent (`dx`): how it changes. Each rule
of **the table `JVP`** gives the tangent of a result, from the inputs and their tangents. Fill in
`mul`, `dot`, `sin` and `relu`. (`step(x)` is 1 where x > 0, and 0 elsewhere.)
""",
    starter=edited(
        SOLUTION,
        ("lambda x, y, dx, dy: dx * y + x * dy", "lambda x, y, dx, dy: ..."),
        ("lambda x, y, dx, dy: dx @ y + x @ dy", "lambda x, y, dx, dy: ..."),
        ("lambda x, dx: dx * cos(x)", "lambda x, dx: ..."),
        ("lambda x, dx: dx * step(x)", "lambda x, dx: ..."),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ("dx * y + x * dy", "dx * dy")),
            "product rule",
        ),
        WrongAnswer(
            edited(SOLUTION, ('"sin": lambda x, dx: dx * cos(x)', '"sin": lambda x, dx: cos(x)')),
            "by how much x changes",
        ),
        WrongAnswer(
            edited(SOLUTION, ("dx * step(x)", "dx")),
            "flat",
        ),
    ),
    hints=(
        (
            "The rule of `add`: when x changes by dx and y by dy, x + y changes by dx + dy. "
            "What about x * y?"
        ),
        (
            "`mul` and `dot` follow the product rule; `sin(x)` changes by cos(x) times dx; "
            "`relu` lets a change through where x > 0."
        ),
        "`dx * y + x * dy`, `dx @ y + x @ dy`, `dx * cos(x)` and `dx * step(x)`.",
    ),
    check=check,
    after="A derivative takes a table with a rule for each operation; the program does the rest.",
    saves="jvp",
)
