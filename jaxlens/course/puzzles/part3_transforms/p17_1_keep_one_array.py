"""Puzzle 17.1."""

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_most, close


def check(f: Function) -> Facts:
    import jax
    import jax.numpy as jnp

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    hint = "A product of exponentials is the exponential of a sum."
    yield close("f(x)", jax.jit(f)(x), np.exp(2 * x).sum(), hint=hint)
    large = jnp.linspace(0.0, 1.0, 128 * 128).reshape(128, 128)
    gradient = jax.grad(f)
    hint = "It is the same function for any array, and so is its derivative."
    yield close(
        "f(x) of 128x128", jax.jit(f)(large) / large.size, jnp.exp(2 * large).mean(), hint=hint
    )
    yield close("its gradient", gradient(large), 2 * jnp.exp(2 * large), rtol=1e-3, hint=hint)
    memory = jaxlens.memory(gradient, large)
    hint = "Which equations leave something to keep? exp keeps its result, a product its factors."
    proof = Proof(jaxlens.ladder, (gradient, large))
    limit = 1.05 * large.nbytes
    yield at_most(
        "kept by autodiff", memory.saved.bytes, limit, unit="B", hint=hint, evidence=proof
    )


PUZZLE = Puzzle(
    id="17.1",
    title="Keep one array",
    task="""\
For its gradient, `f` keeps several arrays as large as `x`. Write it so that it computes the same
and keeps **at most one**.
""",
    starter="""\
def f(x):
    return (jnp.exp(x) * jnp.exp(2 * x) * jnp.exp(-x)).sum()
""",
    solution="""\
def f(x):
    return jnp.exp(2 * x).sum()
""",
    wrong=(
        WrongAnswer(
            """\
def f(x):
    return (jnp.exp(3 * x) * jnp.exp(-x)).sum()
""",
            "a product its factors",
        ),
        WrongAnswer(
            """\
def f(x):
    return (jnp.exp(x) ** 2).sum()
""",
            "exp keeps its result",
        ),
        WrongAnswer(
            """\
def f(x):
    return jnp.exp(3 * x).sum()
""",
            "exponential of a sum",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(x):
    return lax.stop_gradient((jnp.exp(x) * jnp.exp(2 * x) * jnp.exp(-x)).sum())
""",
            "so is its derivative",
        ),
    ),
    hints=(
        "`%compile --memory jax.grad(f)(jnp.ones((128, 128)))` lists what is saved, line by line.",
        "The rule of exp reads its own result. Multiplying by a number keeps no array at all.",
        "exp(a) * exp(b) is exp(a + b).",
    ),
    check=check,
    after=(
        "The slope of exp is its own result, so the one array serves both passes, and the rule "
        "of `2 * x` needs none."
    ),
)
