"""Puzzle 18.3, of the learner's own JAX."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, close, edited, equal
from jaxlens.course.puzzles.own_programs import Case, RandomProgram, alike, random_programs
from jaxlens.course.puzzles.references import reference


def check(scan_vjp: Function, apply: Function) -> Facts:
    xs = np.array([0.5, 2.0, 3.0, -1.0])

    def f(carry: Any, x: Any) -> Any:
        return carry * x + x

    def last(jax: Any) -> Function:
        return lambda carry, xs: jax.lax.scan(lambda c, x: (f(c, x), None), carry, xs)[0]

    value, pull = scan_vjp(f, 1.0, xs)
    yield close("last carry", value, reference("last carry", lambda jax: last(jax)(1.0, xs)))
    cts = pull(1.0)
    count = len(cts) if isinstance(cts, tuple | list) else 0
    hint = "Return a pair: the cotangent of the first carry, and an array of those of xs."
    yield equal("cotangents that pull returns", count, 2, hint=hint)
    ct_carry, ct_xs = cts
    right_carry, right_xs = reference(
        "cotangents of a scan", lambda jax: jax.grad(last(jax), (0, 1))(1.0, xs)
    )
    hint = "A step's `pull` also gives the cotangent of the carry: the step before it needs that."
    yield close("cotangent of the first carry", ct_carry, right_carry, hint=hint)
    reversed_order = np.allclose(ct_xs, np.asarray(right_xs)[::-1])
    hint = (
        "The values are right, in the wrong order: the list must be turned round."
        if reversed_order
        else "Begin with the last step first, at the carry that went into it."
    )
    yield close("cotangents of xs", ct_xs, right_xs, hint=hint)
    _, pull = scan_vjp(f, 2.0, xs)
    right = reference("cotangent for ct = 3", lambda jax: 3 * jax.grad(last(jax))(2.0, xs))
    yield close("cotangent of the carry for ct = 3", pull(3.0)[0], right)
    hint = "A step is any function of the carry and of x: its own `pull` has both cotangents."
    yield alike("random steps, backwards", _random_steps(scan_vjp, apply), hint)


def _random_steps(scan_vjp: Function, apply: Function) -> Iterator[Case]:
    carry, ct = np.array([0.3, -0.6], np.float32), np.array([2.0, -1.0], np.float32)
    xs = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    for step in random_programs(apply):

        def by_jax(jax: Any, step: RandomProgram = step) -> Any:
            f = step.by_jax(jax)

            def last(carry: Any, xs: Any) -> Any:
                return jax.lax.scan(lambda c, x: (jax.numpy.sin(f(c, x)), None), carry, xs)[0]

            return jax.jit(lambda *inputs: jax.vjp(last, *inputs)[1](ct))(carry, xs)

        def own(c: Any, x: Any, step: RandomProgram = step) -> Any:
            return apply("sin", step.own(c, x))

        right = reference(f"cotangents of a scan of sin({step.text})", by_jax)
        for n, name in enumerate(("carry", "xs")):
            run = lambda n=n, own=own: scan_vjp(own, carry, xs)[1](ct)[n]  # noqa: E731
            yield f"the cotangent of {name} with sin({step.text})", run, right[n]


SOLUTION = """\
def scan(f, carry, xs, reverse=False):
    program = trace(f, np.shape(carry), np.shape(xs)[1:])
    carries = []
    for x in xs[::-1] if reverse else xs:
        carries.append(carry)
        carry = evaluate(program, carry, x)
    return carry, carries


def scan_vjp(f, carry, xs):
    last, carries = scan(f, carry, xs)

    def pull(ct):
        cts = []
        for carry, x in zip(reversed(carries), reversed(xs)):
            _, pull_one = vjp(f, carry, x)
            ct, ct_x = pull_one(ct)
            cts.append(ct_x)
        return ct, np.stack(cts[::-1])

    return last, pull
"""

PUZZLE = Puzzle(
    id="18.3",
    title="A scan backwards",
    task="""\
`scan(f, carry, xs)` runs `carry = f(carry, x)` for each `x` and also returns the carries that
went in. Write its backward pass: `pull(ct)` takes the cotangent of the last carry and returns
those of the first carry and of `xs`.
""",
    starter=edited(
        SOLUTION,
        (
            """\
        cts = []
        for carry, x in zip(reversed(carries), reversed(xs)):
            _, pull_one = vjp(f, carry, x)
            ct, ct_x = pull_one(ct)
            cts.append(ct_x)
        return ct, np.stack(cts[::-1])
""",
            """\
        ...  # the cotangents of the first carry, and of all xs
""",
        ),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ("zip(reversed(carries), reversed(xs))", "zip(carries, xs)")),
            "last step first",
        ),
        WrongAnswer(
            edited(SOLUTION, ("np.stack(cts[::-1])", "np.stack(cts)")),
            "turned round",
        ),
        WrongAnswer(
            edited(SOLUTION, ("ct, ct_x = pull_one(ct)", "_, ct_x = pull_one(ct)")),
            "the step before it needs that",
        ),
    ),
    hints=(
        ("A loop backwards is a loop too: it starts with the last step. What does it carry?"),
        (
            "It carries the cotangent of the carry. One step is `vjp(f, carry, x)` at the "
            "carry that went into it; its `pull` gives two cotangents."
        ),
        (
            "Go through `zip(reversed(carries), reversed(xs))`: `ct, ct_x = pull_one(ct)`; "
            "collect `ct_x`, and turn the list round at the end."
        ),
    ),
    check=check,
    after=(
        "The gradient of a loop is a loop in the other direction, which needs every carry "
        "of the first: that is its memory."
    ),
    saves="scan",
)
