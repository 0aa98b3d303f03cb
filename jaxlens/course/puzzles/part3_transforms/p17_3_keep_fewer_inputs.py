"""Puzzle 17.3."""

from typing import Any

import jax
import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_most, close


def check(make: Function) -> Facts:
    import jax.numpy as jnp
    from jax import lax

    def layer(x: Any, w: Any) -> Any:
        return jnp.sin(x @ w)

    def plain(x: Any, ws: Any) -> Any:
        return lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0]

    random = np.random.default_rng(0)
    x = random.normal(size=(1024, 16)).astype(np.float32)
    ws = (0.9 * np.eye(16) + random.normal(size=(16, 16, 16)) / 50).astype(np.float32)
    mine = make(layer)
    yield close("the last layer's result", mine(x, ws), plain(x, ws), rtol=1e-3)
    gradient = jax.grad(lambda ws: mine(x, ws).sum())
    hint = "Nothing comes back: is there a stop_gradient in it?"
    right = jax.grad(lambda ws: plain(x, ws).sum())(ws)
    yield close("the gradient", gradient(ws), right, rtol=1e-3, hint=hint)
    memory = jaxlens.memory(gradient, ws)
    kept = sum(value.bytes for value in memory.residuals)
    proof = Proof(jaxlens.memory, (gradient, ws))
    hint = "The input of each checkpointed part is kept. Let more layers share one."
    if kept > 17 * x.nbytes:
        hint = "Nothing is computed again: wrap what may be forgotten in jax.checkpoint."
    yield at_most("kept", kept, 5 * x.nbytes, unit="B", hint=hint, evidence=proof)
    peak = jaxlens.memory(jax.grad(lambda ws: plain(x, ws).sum()), ws).peak
    hint = "Many layers are computed again at once, so all their values are there at once."
    outermost = jax.make_jaxpr(lambda ws: mine(x, ws))(ws).jaxpr.eqns
    if sum(eqn.primitive.name in ("checkpoint", "remat", "remat2") for eqn in outermost) > 1:
        hint = (
            "A Python loop over blocks is one long program, in which XLA on CPU computes nothing "
            "again. Let `lax.scan` go over the blocks."
        )
    yield at_most(
        "peak",
        memory.peak,
        round(0.75 * peak),
        unit="B",
        hint=hint,
        evidence=proof,
        backends=("cpu",),
    )


PUZZLE = Puzzle(
    id="17.3",
    title="Keep fewer inputs",
    task="""\
`make(layer)` returns a network of 16 layers: `x` of shape (1024, 16) goes through one after
another, and `ws` holds their weights, (16, 16, 16). The backward pass keeps something from
**every** layer. Change `make` so that the gradient keeps **at most 5 arrays** of the size of `x`
(65.5 kB), and the peak falls to three quarters of what it was, or less.
""",
    starter="""\
def make(layer):
    def network(x, ws):
        return lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0]

    return network
""",
    solution="""\
def make(layer):
    @jax.checkpoint
    def block(x, ws):
        return lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0]

    def network(x, ws):
        blocks = ws.reshape(4, 4, 16, 16)  # four blocks of four layers
        return lax.scan(lambda x, ws: (block(x, ws), None), x, blocks)[0]

    return network
""",
    wrong=(
        WrongAnswer(
            """\
def make(layer):
    layer = jax.checkpoint(layer)

    def network(x, ws):
        return lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0]

    return network
""",
            "more layers share one",
        ),
        WrongAnswer(
            """\
def make(layer):
    @jax.checkpoint
    def network(x, ws):
        return lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0]

    return network
""",
            "all their values are there at once",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def make(layer):
    def network(x, ws):
        return lax.stop_gradient(lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0])

    return network
""",
            "stop_gradient in it",
        ),
    ),
    hints=(
        "Run `%compile --memory` on the gradient: how much is saved for the backward pass, and by "
        "which line?",
        "`jax.checkpoint(f)` keeps the inputs of `f`, and computes what is in it again. How many "
        "layers should `f` be?",
        "A checkpointed `block` of four layers, and a scan over four blocks: "
        "`ws.reshape(4, 4, 16, 16)`.",
    ),
    check=check,
    after=(
        "Only the inputs of blocks are kept, and one block at a time is computed again. With n "
        "layers, about sqrt(n) blocks are best."
    ),
    seconds=20.0,
)
