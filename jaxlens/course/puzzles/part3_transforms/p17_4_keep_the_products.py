"""Puzzle 17.4."""

from typing import Any

import jax
import numpy as np

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
    edited,
)


def check(network: Function) -> Facts:
    import jax.numpy as jnp

    def plain(ws: Any, x: Any) -> Any:
        for w in ws:
            x = jnp.sin(jnp.cos(x @ w))
        return (x**2).sum()

    random = np.random.default_rng(0)
    x = random.normal(size=(256, 16)).astype(np.float32)
    ws = list(random.normal(size=(4, 16, 16)).astype(np.float32) / 4)
    yield close("the value", as_program(network, ws, x), plain(ws, x), rtol=1e-3)
    gradient = jax.grad(network)
    hint = "The backward pass is that of the same four layers: is there a stop_gradient in it?"
    found = np.stack(gradient(ws, x))
    yield close("the gradient", found, np.stack(jax.grad(plain)(ws, x)), rtol=1e-3, hint=hint)
    products = jaxlens.receipt(gradient, ws, x).primitives.get("dot_general", 0)
    usual = jaxlens.receipt(jax.grad(plain), ws, x).primitives["dot_general"]
    hint = "The products of the forward pass are computed again. A policy says what may be kept."
    proof = Proof(jaxlens.jaxpr, (gradient, ws, x))
    yield at_most("matrix products", products, usual, hint=hint, evidence=proof)
    memory = jaxlens.memory(gradient, ws, x)
    kept = sum(value.bytes for value in memory.residuals)
    hint = (
        "More than the products is kept: slopes of sin and cos, which are cheap to compute again."
    )
    if memory.residuals and kept <= 8.5 * x.nbytes and _marked(gradient, ws, x) > 1:
        hint = "The input of each layer is kept too: put one checkpoint around the whole network."
    proof = Proof(jaxlens.memory, (gradient, ws, x))
    yield at_most("kept", kept, 5 * x.nbytes, unit="B", hint=hint, evidence=proof)


def _marked(f: Function, *args: Any) -> int:
    """Counts the checkpoints in a program."""
    primitives = jaxlens.receipt(f, *args).primitives
    return sum(primitives.get(name, 0) for name in ("checkpoint", "remat", "remat2"))


SOLUTION = """\
from functools import partial


@partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
def network(ws, x):
    for w in ws:
        x = jnp.sin(jnp.cos(x @ w))
    return (x**2).sum()
"""

_MARK = """\
from functools import partial


@partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
"""

PUZZLE = Puzzle(
    id="17.4",
    title="Keep the products",
    task="""\
This network of four layers keeps nothing, and computes everything again: the sines, which are
cheap, and the **matrix products**, which are not. Change it so that its gradient has no more
products than without `jax.checkpoint`, and still keeps **at most 5 arrays** of the size of `x`.
""",
    starter=edited(SOLUTION, (_MARK, "@jax.checkpoint\n")),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(edited(SOLUTION, (_MARK, "")), "More than the products"),
        WrongAnswer(edited(SOLUTION, ("dots_saveable", "everything_saveable")), "More than the"),
        WrongAnswer(edited(SOLUTION, ("dots_saveable", "nothing_saveable")), "computed again"),
        WrongAnswer(
            """\
def layer(x, w):
    return jnp.sin(jnp.cos(x @ w))


layer = jax.checkpoint(layer, policy=jax.checkpoint_policies.dots_saveable)


def network(ws, x):
    for w in ws:
        x = layer(x, w)
    return (x**2).sum()
""",
            "one checkpoint around the whole",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def network(ws, x):
    for w in ws:
        x = jnp.sin(jnp.cos(x @ w))
    return lax.stop_gradient((x**2).sum())
""",
            "gradient",
        ),
    ),
    hints=(
        "Run `%jaxpr jax.grad(network)(ws, x)` on four matrices, and count `dot_general`.",
        "`jax.checkpoint` takes a `policy`: see `help(jax.checkpoint_policies)`.",
        "`policy=jax.checkpoint_policies.dots_saveable` keeps results of matrix products.",
    ),
    check=check,
    after="The policy sorts by price: products are kept, what goes element by element is not.",
    seconds=20.0,
)
