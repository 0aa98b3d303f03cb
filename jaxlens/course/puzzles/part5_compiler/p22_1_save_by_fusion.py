"""Puzzle 22.1."""

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_least, equal


def check(f: Function) -> Facts:
    import jax.numpy as jnp

    x = jnp.ones((256, 256))
    capture = jaxlens.capture(f, x)
    fusions = jaxlens.fusion(capture)
    receipt = jaxlens.receipt(capture)
    proof = Proof(jaxlens.fusion, (capture,))
    hint = (
        "Each further operation that reads the result of the one before saves a write and a read."
    )
    if any(name in receipt.primitives for name in ("scan", "while")):
        hint = "Each turn of a loop of JAX's is a run of its own, and goes through memory."
    elif not fusions.fusions:
        hint = "Nothing was joined: there is one operation, or a library computes it."
    elif receipt.equations > 2 * sum(len(one.operations) for one in fusions.fusions):
        hint = "XLA made it shorter first: it drops a step that changes nothing, and joins numbers."
    yield at_least(
        "bytes saved by fusion", fusions.saved, 20 * x.nbytes, unit="B", hint=hint, evidence=proof
    )
    runs = receipt.kernels + receipt.library_calls
    hint = "Keep to operations that need nothing but the same element of `x`."
    yield equal("kernels and library calls", runs, 1, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="22.1",
    title="What one kernel saves",
    task="""\
For `wave`, fusion saves twelve times the bytes of `x`. Write an `f` of a 256x256 array that runs as
one kernel and for which it saves **at least twenty times** the bytes of `x` (5.24 MB). What `f`
computes is up to you.
""",
    starter="""\
def f(x):
    return x + 1
""",
    solution="""\
def f(x):
    for _ in range(11):
        x = jnp.sin(x)
    return x
""",
    wrong=(
        WrongAnswer(
            "def f(x):\n    return jnp.sin(x) * 2 + jnp.cos(x) * x\n", "saves a write and a read"
        ),
        WrongAnswer(
            "def f(x):\n    return lax.fori_loop(0, 20, lambda i, y: jnp.sin(y), x)\n",
            "a run of its own",
        ),
        WrongAnswer("def f(x):\n    return x @ x\n", "a library computes it"),
        WrongAnswer(
            """\
def f(x):
    for _ in range(12):
        x = jnp.sin(x) / x.sum()
    return x
""",
            "the same element of `x`",
        ),
    ),
    cheats=(
        WrongAnswer(
            "def f(x):\n    for _ in range(30):\n        x = jnp.maximum(x, 0)\n    return x\n",
            "made it shorter",
        ),
    ),
    hints=(
        "Run `%hlo --fusion f(jnp.ones((256, 256)))` and read the column *saved*.",
        "Each value inside a fusion is neither written nor read again: 262 kB each way.",
        "Chain eleven sines. A Python loop can write them.",
    ),
    check=check,
    after=(
        "It still reads `x` once and writes the result once, however long the chain is: "
        "what the chain would have moved in between is saved."
    ),
    backends=("cpu",),
    seconds=30.0,
)
