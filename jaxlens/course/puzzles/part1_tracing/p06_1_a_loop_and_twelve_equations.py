"""Puzzle 6.1."""

import dis
import inspect
from collections.abc import Iterator
from types import CodeType

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_most, equal


def check(f: Function) -> Facts:
    code = getattr(inspect.unwrap(f), "__code__", None)
    loops = sum(_loops(code)) if code is not None else 0
    hint = "There is no loop in its bytecode: nothing in it jumps back."
    yield equal("a loop in its bytecode", bool(loops), True, hint=hint)
    written = sum(_operations(code)) if code is not None else 0
    hint = "Twelve operations are written out, so the loop need not do any of them."
    yield at_most("operations in its bytecode", written, 11, hint=hint)
    receipt = jaxlens.receipt(f, 1.0)
    if set(receipt.primitives) & {"while", "scan"}:
        hint = "That loop is in the program too; a Python loop is unrolled while JAX traces."
    else:
        hint = "An equation is recorded each time an operation meets a tracer."
    proof = Proof(jaxlens.jaxpr, (f, 1.0))
    yield equal("equations", receipt.equations, 12, hint=hint, evidence=proof)
    again = jaxlens.receipt(lambda x: f(x), 1.0)  # a new function: f is traced again
    hint = "It was another program the first time: what `f` keeps from call to call decides."
    yield equal("equations of a second trace", again.equations, 12, hint=hint)


def _loops(code: CodeType) -> Iterator[int]:
    """Yields the backward jumps of a function, and of those inside it."""
    for part in _parts(code):
        yield sum("JUMP_BACKWARD" in i.opname for i in dis.get_instructions(part))


def _operations(code: CodeType) -> Iterator[int]:
    """Yields the arithmetic and the calls of a function, and of those inside it."""
    for part in _parts(code):
        names = [i.opname for i in dis.get_instructions(part)]
        yield sum(name.startswith("BINARY_OP") or name == "CALL" for name in names)


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


PUZZLE = Puzzle(
    id="6.1",
    title="One loop, twelve equations",
    task="""\
Write a function `f` of one number that has **a loop in its bytecode** and whose jaxpr has **exactly
12 equations**.
""",
    starter="""\
def f(x):
    for i in range(3):
        x = x + 1
    return x
""",
    solution="""\
def f(x):
    for i in range(12):
        x = x + 1
    return x
""",
    wrong=(
        WrongAnswer(
            """\
def f(x):
    return x + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1
""",
            "no loop in its bytecode",
        ),
        WrongAnswer(
            """\
def f(x):
    for _ in range(12):
        pass
    return x + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1
""",
            "the loop need not do any of them",
        ),
        WrongAnswer(
            """\
def f(x):
    return lax.fori_loop(0, 12, lambda i, x: x + 1, x)
""",
            "no loop in its bytecode",
        ),
        WrongAnswer(
            """\
def f(x):
    i = 0
    while i < 3:
        x = x + 1
        i += 1
    return x
""",
            "equations, wanted 12, got 3",
        ),
        WrongAnswer(
            """\
def f(x):
    for i in range(12):
        x = x + i * 2 + 1
    return x
""",
            "each time an operation meets a tracer",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
turns = iter([12])


def f(x):
    for _ in range(next(turns, 3)):
        x = x + 1
    return x
""",
            "from call to call",
        ),
    ),
    hints=(
        "`%jaxpr f(1.0)` counts the equations of the starter. What would one more iteration add?",
        "Arithmetic on Python numbers, such as `i * 2`, is done while JAX traces.",
        "Twelve iterations, and one operation on `x` in each.",
    ),
    check=check,
    after="The loop ran while JAX traced; what it did is in the jaxpr, the loop is not.",
)
