"""Puzzle 28.3, of the learner's own JAX."""

from functools import partial
from typing import Any

import numpy as np

from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, close, edited
from jaxlens.course.puzzles.own_programs import RandomProgram, alike, random_programs
from jaxlens.course.puzzles.references import reference


def check(
    pmap: Function,
    psum: Function,
    sin: Function,
    apply: Function,
) -> Facts:
    x = np.arange(1.0, 5.0)
    yield close("sin on every device", pmap(lambda x: sin(x) * 2)(x), np.sin(x) * 2)
    hint = "After psum every device has the sum of all."
    yield close("psum of 1, 2, 3, 4", pmap(psum)(x), np.full(4, 10.0), hint=hint)
    yield close("x times psum of x", pmap(lambda x: x * psum(x))(x), x * 10, hint=hint)
    rows = np.arange(8.0).reshape(4, 2)
    shared = pmap(lambda x: x + psum(x * 2))(rows)
    hint = "psum adds up the devices, element by element: a row of two stays a row of two."
    yield close("rows of two", shared, rows + rows.sum(0) * 2, hint=hint)
    hint = "A sum may be summed again, and what follows it goes on, device by device."
    rows = np.arange(12.0).reshape(6, 2) / 10
    cases = []
    for program in random_programs(apply):

        def by_jax(jax: Any, program: RandomProgram = program) -> Any:
            f, over = program.by_jax(jax), partial(jax.lax.psum, axis_name="i")
            one = lambda x: over(f(x, over(x) * 0.1)) * x  # noqa: E731
            return jax.jit(jax.vmap(one, axis_name="i"))(rows)

        run = partial(pmap(lambda x, f=program.own: psum(f(x, psum(x) * 0.1)) * x), rows)
        text = f"psum of {program.text}, where y = psum(x) * 0.1"
        cases.append((text, run, reference(text, by_jax)))
    yield alike("random programs with psum", cases, hint)


SOLUTION = """\
RUN["psum"] = lambda x: x


def psum(x):
    return apply("psum", x)


def pmap(f):
    '''Runs `f` on every device's row of `x`; `psum` is the one operation that needs them all.'''

    def call(x):
        program = trace(f, np.shape(x)[1:])
        values = [dict(zip(program.inputs, [row])) for row in x]  # one for each device
        for eqn in program.eqns:
            rows = [[read(v, name) for name in eqn.inputs] for v in values]
            if eqn.op == "psum":
                total_ = sum(row[0] for row in rows)
                results = [total_ for _ in rows]
            else:
                results = [apply(eqn.op, *row) for row in rows]
            for v, result in zip(values, results):
                v[eqn.output] = result
        return np.stack([v[program.output] for v in values])

    return call
"""

PUZZLE = Puzzle(
    id="28.3",
    title="Devices in lockstep",
    task="""\
`pmap(f)` runs one program on several devices, each with its own row. They go through the
equations in step, and none sees another's values, except in **`psum`**: after it, every device has
the sum of what all of them had. Add `psum` to `call`.
""",
    starter=edited(
        SOLUTION,
        (
            """\
            if eqn.op == "psum":
                total_ = sum(row[0] for row in rows)
                results = [total_ for _ in rows]
            else:
                results = [apply(eqn.op, *row) for row in rows]
""",
            """\
            results = [apply(eqn.op, *row) for row in rows]  # and psum?
""",
        ),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    "results = [total_ for _ in rows]",
                    "results = [total_] + [row[0] for row in rows[1:]]",
                ),
            ),
            "every device",
        ),
        WrongAnswer(
            edited(
                SOLUTION, ("sum(row[0] for row in rows)", "sum(np.sum(row[0]) for row in rows)")
            ),
            "stays a row of two",
        ),
        WrongAnswer(
            edited(SOLUTION, ("total_ = sum(row[0] for row in rows)", "total_ = rows[0][0]")),
            "sum of all",
        ),
    ),
    hints=(
        "What does each device have after `psum(x)`, if they hold 1, 2 and 3?",
        (
            "`rows` has each device's inputs for this equation. For `psum` the results do not "
            "come from one row each."
        ),
        ('`if eqn.op == "psum"`: add up `row[0]` of all rows, and give everyone the same sum.'),
    ),
    check=check,
    after=(
        "One program, many devices: all of the communication is in one operation. XLA "
        "calls it all-reduce."
    ),
    saves="pmap",
)
