"""Puzzle 1.2."""

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
    equal,
)


def check(layer: Function) -> Facts:
    import jax.numpy as jnp

    random = np.random.default_rng(0)
    shapes = ((6, 8), (8,), (4, 6))
    w, b, x = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    right = np.maximum(x @ w + b, 0)
    arrays = jnp.asarray(w), jnp.asarray(b), jnp.asarray(x)
    hint = "The layer is still the larger of `x @ w + b` and 0, element by element."
    yield close("layer(w, b, x)", as_program(layer, *arrays), right, hint=hint)
    proof = Proof(jaxlens.jaxpr, (layer, *arrays))
    primitives = jaxlens.receipt(layer, *arrays).primitives
    products = primitives.get("dot_general", 0)
    hint = "A jaxpr keeps what you write: computed twice in Python, it is recorded twice."
    yield equal("matrix products", products, 1, hint=hint, evidence=proof)
    if "custom_jvp_call" in primitives:
        hint = "`relu` is a call of a function with a derivative of its own, around one `max`."
    elif "select_n" in primitives:
        hint = "Choosing takes a comparison and a select; the larger of two is one operation."
    else:
        hint = "Which of these equations does the layer not need?"
    yield at_most("equations", sum(primitives.values()), 4, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="1.2",
    title="A layer in four equations",
    task="""\
The layer takes six equations, two of them only because `jax.nn.relu` is a function with a
derivative rule of its own. Write `layer` so that it computes the same in **at most four**.
""",
    starter="""\
def layer(w, b, x):
    return jax.nn.relu(x @ w + b)
""",
    solution="""\
def layer(w, b, x):
    return jnp.maximum(x @ w + b, 0.0)
""",
    wrong=(
        WrongAnswer(
            """\
def layer(w, b, x):
    y = x @ w + b
    return jnp.where(y > 0, y, 0.0)
""",
            "Choosing takes a comparison and a select",
        ),
        WrongAnswer(
            """\
def layer(w, b, x):
    return jnp.where(x @ w + b > 0, x @ w + b, 0.0)
""",
            "recorded twice",
        ),
        WrongAnswer(
            """\
def layer(w, b, x):
    return x @ w + b
""",
            "the larger of",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def layer(w, b, x):
    return jnp.maximum(x @ w + b, -1e-3)
""",
            "The layer is still",
        ),
        WrongAnswer(
            """\
both = jax.jit(lambda w, b, x: jax.nn.relu(x @ w + b))


def layer(w, b, x):
    return both(w, b, x)
""",
            "a call of a function",
        ),
    ),
    hints=(
        "Run `%jaxpr layer(w, b, x)` and find the one equation inside `relu` that does the work.",
        "It is `max`, of the sum and 0. Which function of `jnp` does this for two arrays?",
        "`jnp.maximum(a, b)` takes the larger of two arrays, element by element.",
    ),
    check=check,
    after=(
        "`relu` is `maximum` inside a call with a derivative rule of its own, which says what the "
        "derivative at 0 is. XLA removes the call."
    ),
)
