"""Puzzle 24.2."""

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


def check(f: Function) -> Facts:
    import jax.numpy as jnp

    table = jnp.sin(jnp.arange(16000.0)).reshape(1000, 16)
    ids = (jnp.arange(64) * 37) % 1000
    hint = "Row `k` of the result is row `ids[k]` of the table."
    yield close("f(ids, table)", as_program(f, ids, table), table[ids], hint=hint)
    others = (jnp.arange(64) ** 2 + 5) % 1000
    hint = "It fetched other rows than the ones that `ids` names."
    yield close("f of other ids", as_program(f, others, -table), -table[others], hint=hint)
    capture = jaxlens.capture(f, ids, table)
    flops = jaxlens.receipt(capture).flops
    hint = "Every row of the table is still multiplied by 0 or 1, for every id."
    proof = Proof(jaxlens.cost, (capture,))
    yield at_most("flops", flops, 10_000, unit="flop", hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="24.2",
    title="Look it up",
    task="""\
`f` fetches 64 rows of a table of 1000 rows by a matrix product with zeros and ones. Fetch the same
rows with **at most 10,000 flops**.
""",
    starter="""\
def f(ids, table):
    return jax.nn.one_hot(ids, 1000) @ table
""",
    solution="""\
def f(ids, table):
    return table[ids]
""",
    wrong=(
        WrongAnswer(
            """\
def f(ids, table):
    return (ids[:, None] == jnp.arange(1000)).astype(table.dtype) @ table
""",
            "multiplied by 0 or 1",
        ),
        WrongAnswer("def f(ids, table):\n    return table[:64]\n", "row `ids[k]`"),
        WrongAnswer(
            """\
def f(ids, table):
    hits = ids[:, None, None] == jnp.arange(1000)[:, None]
    return jnp.where(hits, table, 0).sum(1)
""",
            "for every id",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(ids, table):
    return lax.map(lambda i: jax.nn.one_hot(i, 1000) @ table, ids)
""",
            "for every id",
        ),
    ),
    hints=(
        "Run `%compile --cost f(ids, table)`: what does almost all of the work?",
        "A row that is only copied needs no flop at all.",
        "An array can be indexed by an array of integers, as in NumPy.",
    ),
    check=check,
    after=(
        "What is left are the few operations that handle negative indices. On some accelerators "
        "the product can still be the faster way: it is regular work."
    ),
    seconds=30.0,
)
