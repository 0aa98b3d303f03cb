"""Puzzle 26.1."""

from collections.abc import Callable, Iterator
from typing import Any

import jaxlens
from jaxlens.course.puzzle import Fact, Proof, Puzzle, WrongAnswer, at_least, at_most, equal


def devices() -> Fact:
    """Returns the fact that there are several devices, as a kernel of lesson 26 has."""
    import jax

    hint = (
        'Restart the kernel and run `jax.config.update("jax_num_cpu_devices", 8)` before anything '
        "else: it makes eight devices of one CPU."
    )
    return at_least("devices", jax.device_count(), 2, hint=hint)


def check(place: Callable[..., Any]) -> Iterator[Fact]:
    import jax
    import jax.numpy as jnp

    yield devices()
    count = jax.device_count()
    mesh = jax.make_mesh((count,), ("d",))
    x, w = place(mesh, jnp.ones((8 * count, 32)), jnp.ones((32, 2 * count)))

    def layer(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w)

    sharding = jaxlens.sharding(layer, x, w)
    proof = Proof(jaxlens.sharding, (layer, x, w))
    hint = "Both arrays are still on one device: `jax.device_put(x, ...)` returns a placed array."
    yield equal("devices at work", sharding.devices, count, hint=hint, evidence=proof)
    travels = [c.opcode for c in sharding.collectives]
    hint = (
        "A product needs whole rows of X and whole columns of W. If these are cut, devices must "
        "send each other what they lack."
    )
    yield equal("what travels", travels, [], hint=hint, evidence=proof)
    piece = sharding.outputs[0].piece
    held = int(jnp.prod(jnp.array(piece.shape))) if piece is not None else 0
    hint = "Nothing travels, as every device computes everything. Cut an axis of X or of W."
    whole = 8 * count * 2 * count
    yield at_most(
        "numbers of the result on a device", held, whole // count, hint=hint, evidence=proof
    )


SOLUTION = """\
from jax.sharding import NamedSharding, PartitionSpec as P


def place(mesh, X, W):
    X = jax.device_put(X, NamedSharding(mesh, P("d", None)))
    W = jax.device_put(W, NamedSharding(mesh, P(None, None)))
    return X, W
"""

PUZZLE = Puzzle(
    id="26.1",
    title="Place the arrays",
    task="""\
`place(mesh, X, W)` puts both arrays on the devices of `mesh`, a row of devices named `"d"`. Then
`jnp.tanh(X @ W)` runs. Place them so that every device computes **its own part** of the result and
**nothing travels**.
""",
    starter="""\
from jax.sharding import NamedSharding, PartitionSpec as P


def place(mesh, X, W):
    return X, W
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            SOLUTION.replace('P("d", None)', "P(None, None)"),
            "every device computes everything",
        ),
        WrongAnswer(
            SOLUTION.replace('P("d", None)', 'P(None, "d")'),
            "what they lack",
        ),
        WrongAnswer(
            SOLUTION.replace("P(None, None)", 'P("d", None)'),
            "all-gather",
        ),
        WrongAnswer(
            SOLUTION.replace("P(None, None)", 'P(None, "d")'),
            "ShardingTypeError",
        ),
    ),
    hints=(
        "Run `%compile --sharding layer(X, W)` on what you placed: who holds what, what travels?",
        "Row 3 of the result needs row 3 of X and all of W.",
        'Rows of X to the devices, `P("d", None)`; all of W to everyone, `P(None, None)`.',
    ),
    check=check,
    after="Rows of a batch do not need each other, so the forward pass sends nothing.",
)
