"""Puzzle 28.1."""

from typing import Any

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    at_least,
    at_most,
    edited,
    equal,
)


def devices() -> Fact:
    """Returns the fact that there are several devices, as a kernel of lesson 28 has."""
    import jax

    hint = (
        'Restart the kernel and run `jax.config.update("jax_num_cpu_devices", 8)` before anything '
        "else: it makes eight devices of one CPU."
    )
    return at_least("devices", jax.device_count(), 2, hint=hint)


def check(place: Function) -> Facts:
    import jax
    import jax.numpy as jnp

    yield devices()
    count = jax.device_count()
    mesh = jax.make_mesh((count,), ("d",))
    x, w = place(mesh, jnp.ones((8, 32)), jnp.ones((32, 8 * count)))

    def layer(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w)

    hint = "Both arrays stay whole: `place` says where their pieces are."
    yield equal("numbers of X and W in all", (x.size, w.size), (8 * 32, 32 * 8 * count), hint=hint)
    sharding = jaxlens.sharding(layer, x, w)
    try:
        working = sharding.devices
    except Exception as error:
        if (name := type(error).__name__) != "ShardingTypeError":  # no public name
            raise
        hint = (
            "JAX cannot tell how to cut the result: one mesh axis has to cut both of its axes, or "
            "the axis that the product adds up. Which array need not be cut at all?"
        )
        yield Fact("tanh(X @ W)", "a result", name, False, hint)
        return
    proof = Proof(jaxlens.sharding, (layer, x, w))
    hint = "Both arrays are on one device: `jax.device_put(x, ...)` returns a placed array."
    yield equal("devices at work", working, count, hint=hint, evidence=proof)
    piece = sharding.inputs[1].piece
    rows, columns = piece.shape if piece is not None else w.shape
    hint = "Every device has all of W. Name the mesh axis in W's PartitionSpec."
    held = rows * columns
    yield at_most("numbers of W on a device", held, 32 * 8, hint=hint, evidence=proof)
    travels = [c.opcode for c in sharding.collectives]
    hint = (
        "A number of the result needs a whole row of X and a whole column of W. What of these "
        "did you cut?"
    )
    yield equal("what travels", travels, [], hint=hint, evidence=proof)


SOLUTION = """\
from jax.sharding import NamedSharding, PartitionSpec as P


def place(mesh, X, W):
    X = jax.device_put(X, NamedSharding(mesh, P()))
    W = jax.device_put(W, NamedSharding(mesh, P(None, "d")))
    return X, W
"""

PUZZLE = Puzzle(
    id="28.1",
    title="A layer too large for one device",
    task="""\
Now W is the large one: each of eight devices has room for only an eighth of it.
`place(mesh, X, W)` puts both arrays on the devices of `mesh`, whose axis is called `"d"`; then
`jnp.tanh(X @ W)` runs. Place them so that **no device has more than its share of W**, and still
**nothing travels**.
""",
    starter="""\
from jax.sharding import NamedSharding, PartitionSpec as P


def place(mesh, X, W):
    X = jax.device_put(X, NamedSharding(mesh, P("d", None)))
    W = jax.device_put(W, NamedSharding(mesh, P()))
    return X, W
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer("def place(mesh, X, W):\n    return X, W\n", "on one device"),
        WrongAnswer(SOLUTION.replace('P(None, "d")', 'P("d", None)'), "wanted none"),
        WrongAnswer(SOLUTION.replace("P())", 'P("d", None))'), "need not be cut"),
    ),
    cheats=(WrongAnswer(edited(SOLUTION, ("(W,", "(W[:, :8],")), "numbers of X and W in all"),),
    hints=(
        "Run `%compile --sharding layer(X, W)` on what you placed: who holds what, what travels?",
        "Column 3 of the result needs column 3 of W and all of X.",
        'Some columns of W to each device, `P(None, "d")`; all of X to every device, `P()`.',
    ),
    check=check,
    after="The result is cut by columns, like W: this is how a layer is spread over devices.",
)
