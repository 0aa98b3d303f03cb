"""Puzzle 26.3."""

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Function, Puzzle, WrongAnswer, at_most, by_jax, close


def check(g: Function) -> Facts:
    x = np.float32(1.3)
    with jaxlens.recompiles() as log:
        try:
            value = g(x)
        except TypeError as error:
            if "transformations" not in str(error):
                raise
            hint = "A compiled program has no equations left. Which of the two steps comes first?"
            reason = str(error).partition(".")[0]
            yield Fact("g(1.3)", "a number", f"TypeError ({reason})", False, hint)
            return
    hint = "That is the value of `f`, and not its derivative."
    told = hint if np.allclose(value, x * np.sin(x), rtol=1e-3) else ""
    yield close("g(1.3)", value, np.sin(x) + x * np.cos(x), hint=told)
    yield by_jax("g(1.3)", value)
    hint = "The derivative is right; it was compiled in the call, and not ahead of time."
    made = log.compiles + log.operations
    yield at_most("compiles in the call", made, 0, hint=hint, evidence=lambda: log)


PUZZLE = Puzzle(
    id="26.3",
    title="The derivative of a program",
    task="""\
`compiled` is a program, made ahead of time. `g` should be the **derivative** of `f`, also compiled
ahead of time, so that calling `g` compiles nothing. As it stands, it fails.
""",
    starter="""\
def f(x):
    return x * jnp.sin(x)


compiled = jax.jit(f).lower(1.0).compile()
g = jax.grad(compiled)
""",
    solution="""\
def f(x):
    return x * jnp.sin(x)


g = jax.jit(jax.grad(f)).lower(1.0).compile()
""",
    wrong=(
        WrongAnswer(
            """\
def f(x):
    return x * jnp.sin(x)


g = jax.jit(jax.grad(f))
""",
            "not ahead of time",
        ),
        WrongAnswer(
            """\
def f(x):
    return x * jnp.sin(x)


g = jax.jit(f).lower(1.0).compile()
""",
            "not its derivative",
        ),
        WrongAnswer(
            """\
def f(x):
    return x * jnp.sin(x)


g = jax.grad(jax.jit(f).lower(1.0))
""",
            "callable",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def g(x):
    return np.sin(x) + x * np.cos(x)
""",
            "NumPy did the work",
        ),
        WrongAnswer(
            """\
def f(x):
    return x * jnp.sin(x)


g = jax.jit(jax.grad(f))
""",
            "not ahead of time",
        ),
    ),
    hints=(
        "Read the TypeError: what does JAX say that it cannot do with a compiled function?",
        "`jax.grad` needs equations. Which of `f`, `jax.jit(f)` and `compiled` has some to give?",
        "Transform first, compile last: `jax.jit(jax.grad(f))`, then the two steps of AOT.",
    ),
    check=check,
    after="Transforms rewrite equations; a compiled program has none. So compiling comes last.",
)
