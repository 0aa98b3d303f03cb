"""Puzzle 12.2, of the learner's own JAX."""

from functools import partial
from typing import Any

import numpy as np

from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, close, edited
from jaxlens.course.puzzles.own_programs import alike, fits, pairs, random_programs, under


def check(
    jvp: Function,
    apply: Function,
    jit: Function,
) -> Facts:
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
    hint = "A tangent is linear: for 1e9 dx it is 1e9 times as large. Differences are not."
    for op in ("sin", "relu", "exp"):
        large, once = (
            jvp(lambda x, op=op: apply(op, x), (x,), (scale * dx,))[1] for scale in (1e9, 1.0)
        )
        yield close(
            f"tangent of {op}(x) for 1e9 dx, divided by 1e9",
            large / 1e9,
            once,
            rtol=1e-6,
            hint=hint,
        )
    hint = (
        "A rule must work on tracers: `cos(x)` and `step(x)` are operations, `np.cos(x)` and "
        "`x > 0` need numbers."
    )
    for text, f in {
        "sin(x)": lambda x: apply("sin", x),
        "relu(x)": lambda x: apply("relu", x),
        "x * x": lambda x: x * x,
        "x @ y": lambda x: x @ y,
    }.items():

        def tangent(x: Any, f: Any = f) -> Any:
            return jvp(f, (x,), (dx,))[1]

        yield fits(f"tangent of {text}, traced", partial(jit(tangent), x), tangent(x), hint)
    programs = random_programs(apply)
    cases = under([("jvp",)], programs, jvp=jvp)
    yield alike("random programs under jvp", cases, "One rule is off, or it is not used.")
    cases = under(pairs("jvp", "jit"), programs[:2], jvp=jvp, jit=jit)
    yield alike("jvp and jit in pairs", cases, hint)


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
    "cos": lambda x, dx: dx * (apply("sin", x) * -1.0),
    "step": lambda x, dx: dx * 0.0,
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
    id="12.2",
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
        WrongAnswer(edited(SOLUTION, ("dx * cos(x)", "dx * np.cos(x)")), "work on tracers"),
        WrongAnswer(edited(SOLUTION, ("dx * step(x)", "dx * (x > 0)")), "work on tracers"),
        WrongAnswer(
            edited(
                SOLUTION,
                ("dx * cos(x)", "(np.sin(x + 1e-6 * dx) + -1 * np.sin(x)) * 1e6"),
            ),
            "Differences are not",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    """\
    program = trace(f, *map(np.shape, primals))
    values = dict(zip(program.inputs, primals))
    changes = dict(zip(program.inputs, tangents))
    for eqn in program.eqns:
        inputs = [read(values, x) for x in eqn.inputs]
        moved = [changes[x] if isinstance(x, str) else np.zeros(np.shape(x)) for x in eqn.inputs]
        values[eqn.output] = apply(eqn.op, *inputs)
        changes[eqn.output] = JVP[eqn.op](*inputs, *moved)
    return values[program.output], changes[program.output]
""",
                    """\
    moved = [x + 1e-6 * dx for x, dx in zip(primals, tangents)]
    return f(*primals), (f(*moved) - f(*primals)) * 1e6
""",
                ),
            ),
            "Differences are not",
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
