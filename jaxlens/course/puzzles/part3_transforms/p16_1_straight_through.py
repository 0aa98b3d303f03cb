"""Puzzle 16.1."""

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Function, Proof, Puzzle, WrongAnswer, close, edited


def check(hard_round: Function) -> Facts:
    import jax

    x = np.array([0.3, 1.7, -2.6, 90.6], np.float32)
    hint = "The value stays that of jnp.round."
    yield close("hard_round(x)", hard_round(x), np.round(x), hint=hint)
    value, pull = jax.vjp(hard_round, x)
    hint = "The rule returns two things: the value first, and it is rounded as well."
    yield close("value where it is differentiated", value, np.round(x), hint=hint)
    gradient = pull(np.full(4, 3.0, np.float32))[0]
    hint = (
        "JAX's rule for round says that nothing changes."
        if not np.any(gradient)
        else "It must pass on what it gets: the tangent, or the cotangent, as it is."
    )
    proof = Proof(jaxlens.jaxpr, (lambda x: jax.vjp(hard_round, x)[1](x)[0], x))
    fact = close("gradient of 3 * hard_round(x)", gradient, np.full(4, 3.0), hint=hint)
    yield Fact(fact.name, fact.wanted, fact.actual, fact.holds, hint, proof)
    used = jaxlens.receipt(hard_round, x).primitives
    custom = [name for name in used if name.startswith("custom_")]
    hint = (
        "The slope is right, but it comes from a sum that the program has to compute. Give the "
        "function a rule with jax.custom_jvp or jax.custom_vjp."
    )
    found = ", ".join(custom) or "none"
    proof = Proof(jaxlens.jaxpr, (hard_round, x))
    yield Fact("rule of its own", "custom_jvp or custom_vjp", found, bool(custom), hint, proof)


SOLUTION = """\
@jax.custom_jvp
def hard_round(x):
    return jnp.round(x)


@hard_round.defjvp
def hard_round_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return jnp.round(x), t
"""

PUZZLE = Puzzle(
    id="16.1",
    title="Straight through",
    task="""\
A network that rounds cannot learn: the gradient of `jnp.round` is zero. The usual way out is to
round, and to take the gradient **as if nothing had been rounded**. Give `hard_round` such a rule of
its own: the value of `jnp.round`, and slope 1.
""",
    starter="""\
def hard_round(x):
    return jnp.round(x)
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            "def hard_round(x):\n    return x + lax.stop_gradient(jnp.round(x) - x)\n",
            "a sum that the program has to compute",
        ),
        WrongAnswer(edited(SOLUTION, ("return jnp.round(x), t", "return x, t")), "rounded as well"),
        WrongAnswer(
            edited(SOLUTION, ("return jnp.round(x), t", "return jnp.round(x), 0 * t")),
            "nothing changes",
        ),
        WrongAnswer(
            edited(SOLUTION, ("return jnp.round(x), t", "return jnp.round(x), x * t")),
            "pass on what it gets",
        ),
    ),
    cheats=(
        WrongAnswer(
            edited(SOLUTION, ("jnp.round(x), t", "jnp.round(x), t * (abs(x) < 5)")), "as it is"
        ),
    ),
    hints=(
        "`%jaxpr jax.grad(hard_round)(1.7)`: where does the zero come from?",
        "Decorate with `jax.custom_jvp`, and write the rule under `@hard_round.defjvp`.",
        "The rule returns `jnp.round(x), t`: the value, and the change of x as it came.",
    ),
    check=check,
    after=(
        "JAX believes your rule. The gradient is that of another function, and whether that is "
        "wise is for you to judge."
    ),
)
