"""Puzzle 7.2."""

from typing import Any

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
    edited,
)

_BOXES = ("scan", "while", "cond")


def check(all_steps: Function) -> Facts:
    import jax.numpy as jnp

    numbers = jnp.array([1, 6, 3, 7, 16])
    hint = (
        "6 takes eight steps: 3, 10, 5, 16, 8, 4, 2, 1. Which side comes first? `lax.cond` calls "
        "its first function where the condition holds."
    )
    yield close(
        "steps of 1, 6, 3, 7, 16", as_program(all_steps, numbers), [0, 8, 7, 16, 4], hint=hint
    )
    hint = "9 takes 19 steps, and 27 more than the 99 that are counted."
    found = as_program(all_steps, jnp.array([9, 27]))
    yield close("steps of other numbers", found, [19, 99], hint=hint)
    module = jaxlens.capture(all_steps, numbers).jaxpr.module
    chains = _chains(module)
    found = max(chains, key=lambda chain: (chain == _BOXES, len(chain), chain), default=())
    counts = {name: sum(node.opcode == name for node in module.nodes()) for name in _BOXES}
    yield Fact(
        "what is inside what",
        " > ".join(_BOXES),
        " > ".join(found) or "no box at all",
        _BOXES in chains,
        _hint(counts),
        Proof(jaxlens.jaxpr, (jaxlens.capture(all_steps, numbers),), {"graph": True, "depth": 9}),
    )


def _chains(module: Any) -> set[tuple[str, ...]]:
    """Returns the loops and branches around each equation, outermost first, itself included."""
    chains: set[tuple[str, ...]] = set()
    pending: list[tuple[str, tuple[str, ...]]] = [(module.entry, ())]
    while pending:
        name, around = pending.pop()
        for node in module.regions[name].nodes:
            chain = (*around, node.opcode) if node.opcode in _BOXES else around
            chains.add(chain)
            pending.extend((region, chain) for region in node.regions)
    return chains


def _hint(counts: dict[str, int]) -> str:
    if counts["while"] > 1:
        return (
            f"`while` stands there {counts['while']} times: Python's loop ran while JAX traced, "
            f"and wrote one for each number. `lax.map` keeps one."
        )
    if not counts["scan"]:
        return "All numbers go through one `while` together. `lax.map` takes one after the other."
    if not counts["cond"]:
        return "`jnp.where` computes both sides and selects. `lax.cond` computes one of them."
    return "The order counts: for each number (scan), until it is 1 (while), odd or even (cond)."


SOLUTION = """\
def next_number(n):
    return lax.cond(n & 1, lambda n: 3 * n + 1, lambda n: n >> 1, n)


def steps(n):
    def unfinished(state):
        return (state[0] != 1) & (state[1] < 99)

    def one_step(state):
        n, count = state
        return next_number(n), count + 1

    return lax.while_loop(unfinished, one_step, (n, 0))[1]


def all_steps(numbers):
    return lax.map(steps, numbers)
"""
_WRITTEN_OUT = "jnp.stack([steps(n) for n in jnp.unstack(numbers)])"
_WHERE = edited(
    SOLUTION,
    (
        "lax.cond(n & 1, lambda n: 3 * n + 1, lambda n: n >> 1, n)",
        "jnp.where(n & 1, 3 * n + 1, n >> 1)  # odd: 3n + 1; even: half of n",
    ),
)

PUZZLE = Puzzle(
    id="7.2",
    title="Boxes in boxes",
    task="""\
An odd number n becomes 3n + 1, an even one n / 2, and so on until it is 1. `steps` counts the
steps of one number (up to 99), `all_steps` those of every number in an array. The answers are
right, but the jaxpr has one `while` for each number, and every step computes both 3n + 1 and
n / 2.

Make it **one `scan`, with one `while` in it, with one `cond` in that**.
""",
    starter=edited(_WHERE, ("lax.map(steps, numbers)", _WRITTEN_OUT)),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ("lax.map(steps, numbers)", _WRITTEN_OUT)),
            "wrote one for each number",
        ),
        WrongAnswer(_WHERE, "computes both sides"),
        WrongAnswer(
            edited(SOLUTION, ("lax.map(steps, numbers)", "jax.vmap(steps)(numbers)")),
            "one `while` together",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                (
                    "lambda n: 3 * n + 1, lambda n: n >> 1",
                    "lambda n: n >> 1, lambda n: 3 * n + 1",
                ),
            ),
            "first function where the condition holds",
        ),
    ),
    cheats=(WrongAnswer(edited(SOLUTION, ("state[1] < 99", "state[1] < 16")), "other numbers"),),
    hints=(
        "Run `%jaxpr --graph all_steps(jnp.array([3, 6]))`, and open the boxes.",
        "Two things of yours are in the way: the list in `all_steps`, and the `where`.",
        "`lax.map(steps, numbers)`, and `lax.cond(odd, one_function, other_function, n)`.",
    ),
    check=check,
    after="Each box holds a jaxpr of its own, and none of them has a line for each number.",
)
