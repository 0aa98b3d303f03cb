"""Puzzle 4.2."""

import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    close,
    equal,
)


def check(gram: Function) -> Facts:
    import jax.numpy as jnp

    x = jnp.arange(12.0).reshape(4, 3)
    y = jnp.arange(8.0).reshape(4, 2)
    hint = "Element i, j is the sum over n of `x[n, i] * y[n, j]`."
    yield close("the value", as_program(gram, x, y), np.asarray(x).T @ np.asarray(y), hint=hint)
    found = dict(sorted(jaxlens.receipt(gram, x, y).primitives.items()))
    if "transpose" in found and "dot_general" in found:
        hint = "Something is transposed on the way. Name the axes, and let the product find them."
    elif "dot_general" not in found:
        hint = "The products are formed one by one and then added: no `dot_general` does it."
    else:
        hint = "There is more than the product: the other equations can go."
    proof = Proof(jaxlens.jaxpr, (gram, x, y))
    yield equal("equations", found, {"dot_general": 1}, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="4.2",
    title="Sum over the first axis",
    task="""\
`x.T @ y` transposes `x`, and then sums over axis 1 of the result. Let `gram(x, y)` compute the same
with this one equation:

    c:f32[3,2] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a b
""",
    starter="""\
def gram(x, y):
    return x.T @ y
""",
    solution="""\
def gram(x, y):
    return jnp.einsum("ni,nj->ij", x, y)
""",
    wrong=(
        WrongAnswer("def gram(x, y):\n    return (y.T @ x).T\n", "transposed on the way"),
        WrongAnswer(
            "def gram(x, y):\n    return (x[:, :, None] * y[:, None, :]).sum(0)\n",
            "formed one by one",
        ),
        WrongAnswer('def gram(x, y):\n    return jnp.einsum("ni,nj->ji", x, y)\n', "Element i, j"),
    ),
    cheats=(
        WrongAnswer(
            """\
def gram(x, y):
    return jnp.stack([x[:, i] @ y for i in range(3)])
""",
            "There is more than the product",
        ),
    ),
    hints=(
        "Run `%jaxpr gram(jnp.ones((4, 3)), jnp.ones((4, 2)))`: what stands before the product?",
        "In the wanted equation axis 0 of `a` meets axis 0 of `b`. Which functions take axes?",
        "`jnp.einsum` and `jnp.tensordot` do, as in NumPy.",
    ),
    check=check,
    after="`dot_general` sums over any axes that you name: a transpose before it is never needed.",
)
