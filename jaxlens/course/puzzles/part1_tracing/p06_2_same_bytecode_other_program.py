"""Puzzle 6.2."""

import inspect

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, equal


def check(f: Function) -> Facts:
    parameters = list(inspect.signature(f).parameters)
    hint = "`x` alone decides: what does a tracer know?"
    yield equal("arguments of f", len(parameters), 1, hint=hint)
    traced = set()
    for n in (3, 5, 5, 3, 3):  # also after what came before
        x = np.ones(n, np.float32)
        receipt = jaxlens.receipt(lambda x: f(x), x)  # a new function: f is traced again
        equations = receipt.equations
        if set(receipt.primitives) & {"while", "scan"}:
            hint = "A loop of `lax` is one equation with a body, whatever the length."
        elif n in traced:
            hint = "Just now it was another program: what `f` keeps from call to call decides."
        elif n == 5 and equations == 3:
            hint = "It is the same program for both. What does a tracer know that differs?"
        else:
            hint = "Nothing but the shape of `x` differs, and a tracer knows its shape."
        traced.add(n)
        proof = Proof(jaxlens.jaxpr, (f, x))
        yield equal(f"equations for {n} numbers", equations, n, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="6.2",
    title="One bytecode, two programs",
    task="""\
Write **one** function `f(x)` that records **3 equations** for an array of three numbers and **5
equations** for an array of five. Its bytecode is the same for both, of course.
""",
    starter="""\
def f(x):
    return x + 1 + 1 + 1
""",
    solution="""\
def f(x):
    y = x
    for _ in range(len(x)):
        y = y + 1
    return y
""",
    wrong=(
        WrongAnswer(
            """\
def f(x):
    return lax.fori_loop(0, len(x), lambda i, y: y + 1, x)
""",
            "A loop of `lax` is one equation",
        ),
        WrongAnswer(
            """\
def f(x, n):
    for _ in range(n):
        x = x + 1
    return x
""",
            "`x` alone decides",
        ),
        WrongAnswer(
            """\
def f(x):
    for v in x:
        x = x + v
    return x
""",
            "Nothing but the shape",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
COUNTS = [3, 5]


def f(x):
    COUNTS.append(COUNTS.pop(0))
    for _ in range(COUNTS[-1]):
        x = x + 1
    return x
""",
            "keeps from call to call",
        ),
    ),
    hints=(
        "What does a tracer know? `%jaxpr --tape f(x)` says it in the column *bound*.",
        "A shape is a tuple of Python numbers, known while JAX traces: `len(x)`, `x.shape[0]`.",
        "Let a Python loop run `len(x)` times, with one operation on an array each time.",
    ),
    check=check,
    after="The shape decides what Python runs, so the program depends on the shape.",
)
