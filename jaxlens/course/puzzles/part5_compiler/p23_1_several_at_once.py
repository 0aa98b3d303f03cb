"""Puzzle 23.1."""

import re

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Puzzle,
    WrongAnswer,
    as_program,
    at_least,
    at_most,
    close,
)

_VECTOR = re.compile(r"\b(?:fadd|fmul|fsub)\b[a-z ]* <(\d+) x float>")


def check(f: Function) -> Facts:
    import jax.numpy as jnp

    x = jnp.arange(4096.0) / 512
    hint = "For each element `a` of `x` the result has `a * 0.5 + 1`."
    yield close("f(x)", as_program(f, x), x * 0.5 + 1, hint=hint)
    yield close("f of other numbers", as_program(f, -x), 1 - x * 0.5, hint=hint)
    capture = jaxlens.capture(f, x)
    widths = [int(n) for kernel in capture.kernels for n in _VECTOR.findall(kernel.llvm_after)]
    hint = "Its arithmetic is on single numbers: no instruction does several elements."
    primitives = jaxlens.receipt(capture).primitives
    if any(name in primitives for name in ("scan", "while")):
        hint = "A loop of JAX's takes one element in each turn, so no turn has several to offer."
    found = max(widths, default=1)
    yield at_least("numbers that one instruction does", found, 2, hint=hint)
    loops = sum(primitives.get(name, 0) for name in ("scan", "while"))
    yield at_most("loops in the program", loops, 0, hint=hint)


PUZZLE = Puzzle(
    id="23.1",
    title="Several at once",
    task="""\
`f` goes through `x` element by element. Write it so that it returns the same and that its LLVM IR
has a multiplication or an addition of **several numbers at once**, such as `fadd <8 x float>`.
""",
    starter="""\
def f(x):
    return lax.map(lambda a: a * 0.5 + 1, x)
""",
    solution="""\
def f(x):
    return x * 0.5 + 1
""",
    wrong=(
        WrongAnswer(
            """\
def f(x):
    return lax.fori_loop(0, len(x), lambda i, y: y.at[i].set(x[i] * 0.5 + 1), x)
""",
            "takes one element in each turn",
        ),
        WrongAnswer("def f(x):\n    return x * 1.5\n", "`a * 0.5 + 1`"),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(x):
    return lax.map(lambda a: a * 0.5 + 1, x) + 0 * (x * 0.5 + 1)[0]
""",
            "takes one element in each turn",
        ),
    ),
    hints=(
        "Run `%compile --kernel` on both forms: which types do `fadd` and `fmul` have?",
        "The compiler can join neighbours only where it sees a loop over all of them.",
        "Write the arithmetic on the whole array and leave the loop to XLA.",
    ),
    check=check,
    after=(
        "XLA wrote the loop over elements itself, and so LLVM could take several of them in each "
        "turn: that is vectorisation."
    ),
    backends=("cpu",),
    seconds=30.0,
)
