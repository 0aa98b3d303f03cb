"""Puzzle 22.2."""

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    at_least,
    close,
    equal,
)


def check(f: Function) -> Facts:
    import jax.numpy as jnp

    x = jnp.sin(jnp.arange(12.0)).reshape(3, 4) + 2
    try:
        y = as_program(f, x)
    except ValueError as error:
        if "broadcasting" not in str(error):
            raise
        hint = "The sums of three rows have shape (3,); with `keepdims=True` it is (3, 1)."
        yield Fact("f(x)", "a matrix of shape (3, 4)", str(error).rstrip("."), False, hint)
        return
    hint = "The result has the shape of `x`."
    yield equal("the shape of f(x)", getattr(y, "shape", ()), (3, 4), hint=hint)
    hint = "Divide each row by something that makes its sum 1."
    yield close("the sum of each row", y.sum(1), jnp.ones(3), hint=hint)
    large = jnp.sin(jnp.arange(256.0 * 256)).reshape(256, 256) + 2
    sums = as_program(f, large).sum(1)
    yield close("the sum of each row of 256x256", sums, jnp.ones(256), rtol=1e-3, hint=hint)
    capture = jaxlens.capture(f, large)
    receipt = jaxlens.receipt(capture)
    runs = receipt.kernels + receipt.library_calls
    hint = "Each element of the result must need all numbers of its row in `x`."
    proof = Proof(jaxlens.fusion, (capture,))
    yield at_least("kernels and library calls", runs, 2, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="22.2",
    title="It takes two",
    task="""\
Write an `f` of a matrix of positive numbers. Its result has the same shape, its rows **sum to 1**,
and it runs as **two or more** kernels or library calls.
""",
    starter="""\
def f(x):
    return x
""",
    solution="""\
def f(x):
    return x / x.sum(axis=1, keepdims=True)
""",
    wrong=(
        WrongAnswer(
            "def f(x):\n    return jnp.full_like(x, 1 / x.shape[1])\n",
            "all numbers of its row",
        ),
        WrongAnswer("def f(x):\n    return x / x.sum()\n", "the sum of each row"),
        WrongAnswer("def f(x):\n    return x / x.sum(axis=1)\n", "keepdims"),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(x):
    return x / x.sum(axis=0, keepdims=True)
""",
            "the sum of each row",
        ),
    ),
    hints=(
        "When can a kernel write its first element? Try `%hlo --fusion` on `x / x.sum()`.",
        "A row's sum is there only after the whole row was read.",
        "Divide each row by its own sum: `keepdims=True` lets it broadcast.",
    ),
    check=check,
    after=(
        "No element can be written before its row was summed, so `x` is read twice: once by the "
        "sum, once by the division."
    ),
    backends=("cpu",),
    seconds=30.0,
)
