"""Puzzle 26.2."""

from typing import Any

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    at_least,
    at_most,
    equal,
)


def check(layer: Function, specs: tuple[Any, ...]) -> Facts:
    import jax
    import numpy as np

    leaves = jax.tree.leaves(specs)
    arrays = sum(isinstance(leaf, np.ndarray | jax.Array) for leaf in leaves)
    hint = "An array has data, and these data would take 4 GB. What is it that a compile needs?"
    yield at_most("arrays among specs", arrays, 0, hint=hint)
    memory = jaxlens.memory(layer, *specs)
    arguments = memory.arguments or 0
    half = 2e9 < arguments < 4e9
    hint = "That is half of it: how many bytes has one number?" if half else ""
    yield at_least(
        "bytes of arguments",
        arguments,
        4_000_000_000,
        unit="B",
        hint=hint,
        evidence=Proof(jaxlens.memory, (layer, *specs)),
    )
    hint = "The weights have 32768 rows and columns, and x has 8 rows."
    shapes = [leaf.shape for leaf in leaves]
    yield equal("shapes", shapes, [(32768, 32768), (8, 32768)], hint=hint)


PUZZLE = Puzzle(
    id="26.2",
    title="Four gigabytes, not here",
    task="""\
How much memory would `layer` take, with weights of shape (32768, 32768) in float32? They are over
4 GB, more than this machine may have. Change `specs` so that the **compiled program** is for such
weights and 8 rows, while no array is made.
""",
    starter="""\
def layer(w, x):
    return jnp.tanh(x @ w)


specs = (np.ones((4, 4), np.float32), np.ones((8, 4), np.float32))
""",
    solution="""\
def layer(w, x):
    return jnp.tanh(x @ w)


specs = (
    jax.ShapeDtypeStruct((32768, 32768), jnp.float32),
    jax.ShapeDtypeStruct((8, 32768), jnp.float32),
)
""",
    wrong=(
        WrongAnswer(
            """\
def layer(w, x):
    return jnp.tanh(x @ w)


specs = (
    np.broadcast_to(np.float32(1), (32768, 32768)),
    jax.ShapeDtypeStruct((8, 32768), jnp.float32),
)
""",
            "An array has data",
        ),
        WrongAnswer(
            """\
def layer(w, x):
    return jnp.tanh(x @ w)


specs = (
    jax.ShapeDtypeStruct((32768, 32768), jnp.bfloat16),
    jax.ShapeDtypeStruct((8, 32768), jnp.bfloat16),
)
""",
            "half of it",
        ),
        WrongAnswer(
            """\
def layer(w, x):
    return jnp.tanh(x @ w)


specs = (
    jax.ShapeDtypeStruct((32768, 32768), jnp.float32),
    jax.ShapeDtypeStruct((8, 4), jnp.float32),
)
""",
            "TypeError",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def layer(w, x):
    return w


specs = (jax.ShapeDtypeStruct((1 << 30,), jnp.float32),) * 2
""",
            "8 rows",
        ),
    ),
    hints=(
        "Run `%compile --memory layer(*specs)` and look at the arguments: a compile is enough.",
        "A compile looks at shapes and dtypes only. JAX has a type that holds just these two.",
        "`jax.ShapeDtypeStruct(shape, dtype)`, once for the weights and once for the rows.",
    ),
    check=check,
    after="A compile reads no data: ask what a program needs before you rent the machine.",
)
