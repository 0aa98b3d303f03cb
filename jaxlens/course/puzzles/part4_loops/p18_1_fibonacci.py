"""Puzzle 18.1."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    close,
    equal,
)


def check(sequence: Function) -> Facts:
    a, b = jnp.float32(2), jnp.float32(1)
    wanted = [2.0, 1.0]
    while len(wanted) < 60:
        wanted.append(wanted[-2] + wanted[-1])
    try:
        first = as_program(lambda a, b: sequence(a, b, 8), a, b)
    except jax.errors.UnexpectedTracerError:
        hint = (
            "The list is Python's, and the body is traced once: what it appends is one stand-in. "
            "Return it from the body instead, and scan stacks what all steps returned."
        )
        yield equal("what leaves the loop", "a stand-in in a list", "a result", hint=hint)
        return
    if isinstance(first, tuple):
        hint = "`scan` returns the last carry, and what the steps left, stacked: take the second."
        if np.shape(first[-1]) == ():
            hint = "That is the last carry. What each step is to leave behind, `scan` stacks."
        yield equal("the result", "a tuple", "an array", hint=hint)
        return
    values = np.asarray(first).tolist() if np.shape(first) == (8,) else []
    hint = {
        wanted[1]: "It starts one too late: return the number before the step, not the one after.",
        wanted[2]: "It starts two too late: return the first number of the carry, not the sum.",
    }.get(values[0] if values else 0.0, "The first two are a and b; each later one adds up two.")
    yield close("the first 8 from 2 and 1", first, np.array(wanted[:8]), hint=hint)

    def forty(a: Any, b: Any) -> Any:
        return sequence(a, b, 40)

    yield close(
        "the first 40 from 2 and 1", as_program(forty, a, b), np.array(wanted[:40]), hint=hint
    )
    more = as_program(lambda a, b: sequence(a, b, 60), a, b)
    yield close("the first 60 from 2 and 1", more, np.array(wanted), hint=hint)
    short = jaxlens.receipt(lambda a, b: sequence(a, b, 8), a, b).equations
    long = jaxlens.receipt(forty, a, b).equations
    hint = "Python still runs this loop while JAX traces, and each turn leaves its equations."
    proof = Proof(jaxlens.jaxpr, (forty, a, b))
    yield Fact(
        "equations for 40 numbers",
        f"{short}, as for 8",
        str(long),
        long == short,
        hint,
        proof,
    )


PUZZLE = Puzzle(
    id="18.1",
    title="A sequence",
    task="""\
Each number is the sum of the two before it: from 2 and 1 come 3, 4, 7, 11... `sequence(a, b, n)`
returns the first `n` of them. Its program grows with `n`. Write it so that 40 numbers take
**as many equations as 8**.
""",
    starter="""\
def sequence(a, b, n):
    numbers = []
    for _ in range(n):
        numbers.append(a)
        a, b = b, a + b
    return jnp.stack(numbers)
""",
    solution="""\
def sequence(a, b, n):
    def step(carry, _):
        a, b = carry
        return (b, a + b), a

    return lax.scan(step, (a, b), None, length=n)[1]
""",
    wrong=(
        WrongAnswer(
            """\
def sequence(a, b, n):
    numbers = []

    def step(i, carry):
        a, b = carry
        numbers.append(a)
        return b, a + b

    lax.fori_loop(0, n, step, (a, b))
    return jnp.stack(numbers)
""",
            "the body is traced once",
        ),
        WrongAnswer(
            """\
def sequence(a, b, n):
    def step(carry, _):
        a, b = carry
        return (b, a + b), b

    return lax.scan(step, (a, b), None, length=n)[1]
""",
            "one too late",
        ),
        WrongAnswer(
            """\
def sequence(a, b, n):
    numbers = jnp.zeros(n)
    for i in range(n):
        numbers = numbers.at[i].set(a)
        a, b = b, a + b
    return numbers
""",
            "Python still runs this loop",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def sequence(a, b, n):
    numbers = []
    for _ in range(40):
        numbers.append(a)
        a, b = b, a + b
    return jnp.stack(numbers)[jnp.arange(n)]
""",
            "the first 60",
        ),
    ),
    hints=(
        "Compare `%jaxpr sequence(2.0, 1.0, 3)` with that of 4: which equations are new?",
        "What does one step need from the step before? That is the carry: it may be a pair.",
        (
            "`lax.scan(step, (a, b), None, length=n)`: there is nothing to run over, so the second "
            "argument of `step` is not used. It returns the new pair, and the number to stack."
        ),
    ),
    check=check,
    after="The carry is what one step hands to the next; what a step returns beside it is stacked.",
)
