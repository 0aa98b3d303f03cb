"""Puzzle 9.5, of the learner's own JAX."""

from typing import Any

import numpy as np

from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, close, edited, equal
from jaxlens.course.puzzles.own_programs import alike, random_programs, under


def check(jit: Function, apply: Function) -> Facts:
    traced = []

    def f(x: Any) -> Any:
        traced.append(x)
        return x * 2 + 1

    jitted = jit(f)
    arrays = [
        np.ones(3, np.float32),
        np.full(3, 5, np.float32),
        np.ones(4, np.float32),
        np.arange(3, dtype=np.int32),
        np.zeros(3, np.float32),
    ]
    results = [jitted(x) for x in arrays]
    hints = {
        1: "All arrays got one program: shape and dtype belong in the key.",
        5: "A value must not be part of the key, and the dict must outlive the call.",
        2: "An int32 array was served the program of a float32 one: dtype belongs in the key.",
    }
    wanted = 3
    hint = hints.get(len(traced), "Shape and dtype are the key, and nothing else.")
    yield equal("traces in five calls", len(traced), wanted, hint=hint)
    for x, y in zip(arrays, results, strict=True):
        hint = (
            "The dict keeps programs, not results: `evaluate` one with the arguments of this call."
        )
        yield close(f"result for {x.dtype}[{x.size}]", y, x * 2 + 1, hint=hint)
    times = [jit(lambda x, n=n: x * n) for n in (3, 5)]
    hint = "Another function got the program of the first: each needs a dict of its own."
    for n, g in zip((3, 5), times, strict=True):
        yield close(f"x * {n} at 2, beside another lambda", g(2.0), n * 2.0, hint=hint)
    row, number = np.ones(3, np.float32), np.float32(4)
    shapes = []

    def of_two(x: Any, y: Any) -> Any:
        shapes.append((np.shape(x), np.shape(y)))
        return x * 2 + y

    both = jit(of_two)
    hint = "The key needs an entry for each argument, in their order."
    yield close("x * 2 + y", both(row, number), row * 2 + number, hint=hint)
    yield close("the same, swapped", both(number, row), number * 2 + row, hint=hint)
    yield equal("traces of x * 2 + y", len(shapes), 2, hint=hint)
    hint = "A stored program is run on the arguments of this call, tracers of another jit too."
    cases = under([("jit",), ("jit", "jit")], random_programs(apply), jit=jit)
    yield alike("random programs under jit", cases, hint)


SOLUTION = """\
def read(values, x):
    '''The value of a name; numbers, arrays and shapes are their own value.'''
    return values[x] if isinstance(x, str) else x


def evaluate(program, *arrays):
    values = dict(zip(program.inputs, arrays))
    for eqn in program.eqns:
        values[eqn.output] = apply(eqn.op, *[read(values, x) for x in eqn.inputs])
    return values[program.output]


def jit(f):
    programs = {}

    def call(*args):
        key = tuple((np.shape(x), getattr(x, "dtype", type(x))) for x in args)
        if key not in programs:
            programs[key] = trace(f, *map(np.shape, args))
        return evaluate(programs[key], *args)

    return call
"""

PUZZLE = Puzzle(
    id="9.5",
    title="Your own jit",
    task="""\
`trace` comes from your `my_jax.py` (or from the course's, if you skipped it). `jit` below
traces `f` at every call. Let it trace **once for each combination of shapes and dtypes**, and
otherwise run the stored program.
""",
    starter=edited(
        SOLUTION,
        (
            """\
        key = tuple((np.shape(x), getattr(x, "dtype", type(x))) for x in args)
        if key not in programs:
            programs[key] = trace(f, *map(np.shape, args))
        return evaluate(programs[key], *args)
""",
            """\
        program = trace(f, *map(np.shape, args))  # every time: change this
        return evaluate(program, *args)
""",
        ),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ('(np.shape(x), getattr(x, "dtype", type(x)))', "np.shape(x)")),
            "dtype",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    """\
def jit(f):
    programs = {}

""",
                    """\
programs = {}


def jit(f):
""",
                ),
            ),
            "got the program of the first",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    """\
def jit(f):
    programs = {}

""",
                    """\
programs = {}


def jit(f):
""",
                ),
                ("        key = tuple(", "        key = f.__name__, *("),
                ("for x in args)\n        if", "for x in args)\n        if"),
            ),
            "got the program of the first",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    "= trace(f, *map(np.shape, args))",
                    "= evaluate(trace(f, *map(np.shape, args)), *args)",
                ),
                ("evaluate(programs[key], *args)", "programs[key]"),
            ),
            "programs, not results",
        ),
        WrongAnswer(
            edited(
                SOLUTION, ('(np.shape(x), getattr(x, "dtype", type(x)))', "(np.shape(x), str(x))")
            ),
            "value",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    """\
    programs = {}

    def call(*args):
""",
                    """\
    def call(*args):
        programs = {}
""",
                ),
            ),
            "outlive the call",
        ),
    ),
    hints=(
        "Which calls may share a program? Write down what must be equal for two arrays.",
        (
            "A dict from a key to a program. The key must be hashable: a tuple of `(shape, "
            "dtype)` for each argument."
        ),
        (
            "`key = tuple((np.shape(x), getattr(x, 'dtype', type(x))) for x in args)`, and "
            "`if key not in programs: ...`"
        ),
    ),
    check=check,
    after=(
        "The key is what the program depends on. JAX adds weak types, tree structure, "
        "placement and static arguments."
    ),
    saves="jit",
)
