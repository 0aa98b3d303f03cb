"""Puzzle 3.1, of the learner's own JAX."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, edited, equal
from jaxlens.course.puzzles.own_programs import RandomProgram, alike, random_programs
from jaxlens.course.puzzles.references import reference


def check(trace: Function, apply: Function) -> Facts:
    functions: dict[str, Callable[[Any], Any]] = {
        "x * 2 + 1": lambda x: x * 2 + 1,
        "2 * x": lambda x: 2 * x,
        "x * x": lambda x: x * x,
        "(x + 1) * (x + 1)": lambda x: (x + 1) * (x + 1),
    }
    for text, f in functions.items():
        program = trace(f, ())
        right = reference(f"operations of {text}", partial(_operations, f))
        hint = f"JAX records {', then '.join(right)}: what Python ran, in that order."
        recorded = [eqn.op for eqn in program.eqns]
        if not recorded:
            hint = "The list `eqns` is empty: `apply` must append to the one the tracers share."
        elif recorded[: -len(right)] and recorded[-len(right) :] == right:
            hint = (
                "The equations of an earlier trace are there too: each begins with an empty list."
            )
        yield equal(f"operations of {text}", recorded, right, hint=hint)
        names = [eqn.output for eqn in program.eqns]
        hint = "Each result needs a name of its own, or a later equation cannot say what it reads."
        different = len({*names, *program.inputs})
        yield equal(f"different names in {text}", different, len(names) + 1, hint=hint)
        inside = sum(hasattr(x, "eqns") for eqn in program.eqns for x in eqn.inputs)
        hint = "An equation holds the name of a tracer, `x.name`, not the tracer itself."
        yield equal(f"tracers inside the equations of {text}", inside, 0, hint=hint)
        reads = {name for eqn in program.eqns for name in eqn.inputs if isinstance(name, str)}
        known = reads <= {*names, *program.inputs} and program.output == names[-1]
        hint = "An equation reads names: the input's, or those of earlier results."
        yield equal(f"names read in {text} are defined", known, True, hint=hint)
    shape = trace(lambda x: x + np.ones(3), (4, 1)).eqns[0].shape
    yield equal("shape of a sum of (4, 1) and (3,)", shape, (4, 3))
    hint = "Each trace has equations and names of its own, and run in order they give the value."
    cases = (
        (
            program.text,
            partial(_traced_and_run, trace, apply, program.own),
            reference(program.text, partial(_run_by_jax, program)),
        )
        for program in random_programs(apply)
    )
    yield alike("random programs, traced twice and run", cases, hint)


def _run_by_jax(program: RandomProgram, jax: Any) -> Any:
    return program.by_jax(jax)(0.4, -1.3)


def _operations(f: Function, _: Any) -> list[str]:
    return [node.opcode for node in jaxlens.capture(f, 1.0).jaxpr.module.nodes()]


def _traced_and_run(trace: Function, apply: Function, f: Any) -> Any:
    first, second = (trace(f, (), ()) for _ in range(2))
    if len(first.eqns) != len(second.eqns):
        raise ValueError(f"{len(first.eqns)} equations at first, then {len(second.eqns)}")
    values = dict(zip(second.inputs, (0.4, -1.3), strict=True))
    for eqn in second.eqns:
        inputs = [values[x] if isinstance(x, str) else x for x in eqn.inputs]
        if eqn.output in values:
            raise ValueError(f"the name {eqn.output} stands for two values")
        values[eqn.output] = apply(eqn.op, *inputs)
    return values[second.output]


SOLUTION = """\
from typing import NamedTuple

import numpy as np


class Eqn(NamedTuple):
    op: str
    inputs: tuple  # names of values; numbers and shapes as they are
    output: str
    shape: tuple


class Program(NamedTuple):
    inputs: tuple
    eqns: list
    output: str


RUN = {
    "add": np.add,
    "mul": np.multiply,
    "dot": np.matmul,
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "log": np.log,
    "relu": lambda x: np.maximum(x, 0.0),
    "step": lambda x: np.where(x > 0, 1.0, 0.0),
}


class Tracer:
    __array_ufunc__ = None  # NumPy leaves `array * tracer` to us

    def __init__(self, eqns, name, shape):
        self.eqns, self.name, self.shape = eqns, name, shape

    def __add__(self, other):
        return apply("add", self, other)

    def __mul__(self, other):
        return apply("mul", self, other)

    def __matmul__(self, other):
        return apply("dot", self, other)

    def __rmatmul__(self, other):
        return apply("dot", other, self)

    __radd__, __rmul__ = __add__, __mul__


def apply(op, *inputs):
    tracers = [x for x in inputs if isinstance(x, Tracer)]
    if not tracers:
        return RUN[op](*inputs)
    eqns = tracers[0].eqns
    stand_ins = [np.ones(x.shape) if isinstance(x, Tracer) else x for x in inputs]
    names = tuple(x.name if isinstance(x, Tracer) else x for x in inputs)
    eqn = Eqn(op, names, f"v{len(eqns)}", np.shape(RUN[op](*stand_ins)))
    eqns.append(eqn)
    return Tracer(eqns, eqn.output, eqn.shape)


def trace(f, *shapes):
    eqns = []
    tracers = [Tracer(eqns, f"x{i}", shape) for i, shape in enumerate(shapes)]
    output = f(*tracers)
    return Program(tuple(x.name for x in tracers), eqns, output.name)


def sin(x):
    return apply("sin", x)


def relu(x):
    return apply("relu", x)
"""

PUZZLE = Puzzle(
    id="3.1",
    title="Write a tracer",
    task="""\
Here is the beginning of **your own JAX**. `trace(f, (3,))` calls `f` with a `Tracer` of shape
`(3,)`, which has no numbers. Fill the three holes so that every operation on it is recorded as
an equation, each with **a name of its own** for its result.

What you write here is saved to `my_jax.py` when it is right, and grows from lesson to lesson.
""",
    starter=edited(
        SOLUTION,
        (
            """\
    def __add__(self, other):
        return apply("add", self, other)

    def __mul__(self, other):
        return apply("mul", self, other)
""",
            """\
    def __add__(self, other):
        ...  # what does `x + other` record?

    def __mul__(self, other):
        ...
""",
        ),
        (
            """\
    eqns = tracers[0].eqns
    stand_ins = [np.ones(x.shape) if isinstance(x, Tracer) else x for x in inputs]
    names = tuple(x.name if isinstance(x, Tracer) else x for x in inputs)
    eqn = Eqn(op, names, f"v{len(eqns)}", np.shape(RUN[op](*stand_ins)))
    eqns.append(eqn)
    return Tracer(eqns, eqn.output, eqn.shape)
""",
            """\
    stand_ins = [np.ones(x.shape) if isinstance(x, Tracer) else x for x in inputs]
    shape = np.shape(RUN[op](*stand_ins))
    ...  # append an Eqn to the tracer's `eqns`, and return a Tracer for its result
""",
        ),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ("return Tracer(eqns, eqn.output, eqn.shape)", "return tracers[0]")),
            "An equation reads names",
        ),
        WrongAnswer(
            edited(SOLUTION, ('f"v{len(eqns)}", np.shape', '"v", np.shape')),
            "a name of its own",
        ),
        WrongAnswer(
            edited(SOLUTION, ("Eqn(op, names, f", "Eqn(op, inputs, f")),
            "not the tracer itself",
        ),
        WrongAnswer(edited(SOLUTION, ("    eqns.append(eqn)\n", "")), "must append"),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    "def trace(f, *shapes):\n    eqns = []\n",
                    "EQNS = []\n\n\ndef trace(f, *shapes):\n    eqns = EQNS\n",
                ),
            ),
            "of an earlier trace are there too",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    '        return apply("mul", self, other)',
                    '        return apply("add", self, other)',
                ),
            ),
            "JAX records",
        ),
    ),
    hints=(
        "What must `x * 2` return, so that `x * 2 + 1` can go on from it?",
        (
            "Both operators can call `apply`, as `__matmul__` does. In `apply`, a name such "
            "as `v0`, `v1` comes from the number of equations so far."
        ),
        (
            '`eqns = tracers[0].eqns`; append `Eqn(op, names, f"v{len(eqns)}", shape)`, where '
            "`names` has a tracer's name and anything else as it is; return a new "
            "`Tracer(eqns, eqn.output, shape)`."
        ),
    ),
    check=check,
    after=(
        "Python runs your function, and its operators do the recording: the source is never read."
    ),
    saves="the tracer",
)
