"""Puzzle 5.4."""

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
)

_LAYERS = 50


def check(network: Function) -> Facts:
    import jax.numpy as jnp

    random = np.random.default_rng(0).normal(size=(_LAYERS, 4, 4))
    ws = np.linalg.qr(random).Q.astype(np.float32)  # rotations: values stay of a size
    x = np.ones(4, np.float32)
    right = x
    for w in ws:
        right = np.sin(right @ w)
    args = jnp.asarray(ws), jnp.ones(4)
    result = as_program(network, *args)
    hint = (
        "Each layer takes what the one before returned, multiplies by its own matrix, then takes "
        "the sine."
    )
    if isinstance(result, tuple):
        hint = "`lax.scan` returns a pair: the last carry, and the outputs of all iterations."
    yield close("network(ws, x)", result, right, rtol=1e-3, hint=hint)
    receipt = jaxlens.receipt(network, *args)
    primitives = receipt.primitives
    if primitives.get("jit", primitives.get("pjit", 0)) >= 10:
        hint = "A jitted function called in a Python loop is one equation for each call."
    elif set(primitives) & {"scan", "while"}:
        hint = "There is a loop in the program, and its body is still a long one."
    else:
        hint = "A Python loop is not recorded: its body is, once for each iteration."
    # The evidence is drawn for a few layers: all of them would be a long page.
    proof = Proof(jaxlens.jaxpr, (network, *args)) if receipt.equations <= 60 else None
    yield at_most("equations", receipt.equations, 20, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="5.4",
    title="Fifty layers, one body",
    task="""\
Fifty layers in a Python loop are 200 equations, and XLA compiles every one. `lax.scan` puts the
loop itself into the program:

`carry, _ = lax.scan(body, start, ws)` calls `body(carry, w)` for each `w` in `ws`; `body` returns
the next `carry` and an output of this iteration, or `None` if there is none. Write `network` with
**at most 20 equations**.
""",
    starter="""\
def network(ws, x):
    for i in range(50):
        x = jnp.sin(x @ ws[i])
    return x
""",
    solution="""\
def network(ws, x):
    def layer(x, w):
        return jnp.sin(x @ w), None

    x, _ = lax.scan(layer, x, ws)
    return x
""",
    wrong=(
        WrongAnswer(
            """\
def network(ws, x):
    for block in range(5):
        for w in ws[10 * block : 10 * block + 10]:
            x = jnp.sin(x @ w)
    return x
""",
            "once for each iteration",
        ),
        WrongAnswer(
            """\
layer = jax.jit(lambda w, x: jnp.sin(x @ w))


def network(ws, x):
    for i in range(50):
        x = layer(ws[i], x)
    return x
""",
            "one equation for each call",
        ),
        WrongAnswer(
            """\
def network(ws, x):
    return lax.scan(lambda x, w: (jnp.sin(x @ w), None), x, ws)
""",
            "returns a pair",
        ),
        WrongAnswer(
            """\
def network(ws, x):
    return lax.scan(lambda x, w: (jnp.sin(w @ x), None), x, ws)[0]
""",
            "multiplies by its own matrix",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def network(ws, x):
    return lax.fori_loop(0, 50, lambda i, x: jnp.sin(x @ ws[0]), x)
""",
            "multiplies by its own matrix",
        ),
    ),
    hints=(
        "Count with `%jaxpr network(jnp.ones((50, 4, 4)), jnp.ones(4))`: what does a layer cost?",
        "What changes from layer to layer is `x` (the carry) and `w` (the element of `ws`).",
        "`def layer(x, w): return jnp.sin(x @ w), None`, and `lax.scan(layer, x, ws)[0]`.",
    ),
    check=check,
    after="The body is recorded once; a thousand layers would be the same few equations.",
)
