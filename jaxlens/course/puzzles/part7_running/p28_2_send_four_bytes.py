"""Puzzle 28.2."""

from typing import Any

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    at_most,
    close,
    equal,
)
from jaxlens.course.puzzles.part7_running.p28_1_place_the_arrays import devices


def check(f: Function) -> Facts:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    yield devices()
    count = jax.device_count()
    mesh = jax.make_mesh((count,), ("d",))
    random = np.random.default_rng(0)
    rows = random.normal(size=(8 * count, 32)).astype(np.float32)
    weights = random.normal(size=(32, 16)).astype(np.float32) / 8
    spec: Any = PartitionSpec  # JAX's has no types
    x = jax.device_put(jnp.asarray(rows), NamedSharding(mesh, spec("d")))
    w = jax.device_put(jnp.asarray(weights), NamedSharding(mesh, spec()))
    hint = "It is the sum of all numbers of `y`, which is `tanh(X @ W)` squared."
    wanted = np.square(np.tanh(rows @ weights)).sum()
    yield close("f(X, W)", as_program(f, x, w), wanted, rtol=1e-3, hint=hint)
    sharding = jaxlens.sharding(f, x, w)
    proof = Proof(jaxlens.sharding, (f, x, w))
    sent = [c.opcode for c in sharding.collectives]
    hint = "The result needs the rows of all devices, so one number from each must travel."
    yield equal("what travels", sent, ["all-reduce"], hint=hint, evidence=proof)
    hint = "Each device sends one sum for every column. What could it add up before?"
    travelled = sum(c.bytes or 0 for c in sharding.collectives)
    yield at_most("bytes a device puts in", travelled, 4, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="28.2",
    title="Four bytes",
    task="""\
X is cut by rows over the devices; each has all of W. `f` adds up the columns first, so the
sums of 16 columns travel: 64 bytes from each device. Write `f` so that it returns the same
number, and **one all-reduce of 4 bytes** is all that travels.
""",
    starter="""\
def f(X, W):
    y = jnp.tanh(X @ W) ** 2
    columns = y.sum(axis=0)
    return columns.sum()
""",
    solution="""\
def f(X, W):
    y = jnp.tanh(X @ W) ** 2
    return y.sum()
""",
    wrong=(
        WrongAnswer(
            """\
def f(X, W):
    y = jnp.tanh(X @ W) ** 2
    return y.sum(axis=0)
""",
            "wanted shape ()",
        ),
        WrongAnswer(
            """\
def f(X, W):
    y = jnp.tanh(X @ W) ** 2
    columns = jnp.ones(len(y)) @ y
    return columns.sum()
""",
            "one sum for every column",
        ),
        WrongAnswer(
            """\
def f(X, W):
    y = jnp.tanh(X @ W) ** 2
    return y.mean()
""",
            "f(X, W), wanted",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(X, W):
    y = jnp.tanh(X[: len(X) // 8] @ W) ** 2
    return 8 * y.sum()
""",
            "the sum of all numbers",
        ),
    ),
    hints=(
        "Run `%compile --sharding f(X, W)`: which line makes the all-reduce, and of what size?",
        "A sum over rows crosses devices. A sum along a row does not.",
        "Add up all that a device has before anything travels: one sum over both axes.",
    ),
    check=check,
    after="A device first adds up what it has; the all-reduce adds one number from each.",
)
