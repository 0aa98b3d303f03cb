"""Puzzle 25.3."""

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


def check(attend: Function) -> Facts:
    import jax
    import jax.numpy as jnp

    n, d = 512, 16
    q = 3 * jnp.sin(jnp.arange(n * d, dtype=jnp.float32)).reshape(n, d)
    k, v = jnp.cos(3 * q), jnp.sin(5 * q)
    hint = "A row of the result for each query, with a softmax over **all** keys."
    wanted = jax.nn.softmax(q @ k.T) @ v
    yield close("attend(q, k, v)", as_program(attend, q, k, v), wanted, rtol=1e-3, hint=hint)
    capture = jaxlens.capture(attend, q, k, v)
    receipt = jaxlens.receipt(capture)
    found = receipt.temporaries or 0
    hint = "All 512x512 scores are in memory at once."
    if any(name in receipt.primitives for name in ("remat", "remat2", "checkpoint")):
        hint = "jax.checkpoint saves memory between the forward and the backward pass only."
    elif any(name in receipt.primitives for name in ("scan", "while")):
        hint = "One turn of the loop still needs this much: make the parts smaller."
    elif receipt.primitives.get("dot_general", 0) > 2:
        hint += " A Python loop is written out, and XLA may do its parts at any time."
    else:
        hint += " Parts need to come one after the other; vmap would do all parts at once."
    proof = Proof(jaxlens.memory, (capture,))
    limit = n * n * 4 // 4
    yield at_most("temporaries", found, limit, unit="B", hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="25.3",
    title="A part at a time",
    task="""\
`attend` compares 512 queries with 512 keys: a softmax over 512x512 scores, which take 1.05 MB. Each
query needs its own row of scores only. Keep the temporaries **below a quarter** of that.
""",
    starter="""\
def attend(q, k, v):
    return jax.nn.softmax(q @ k.T) @ v
""",
    solution="""\
def attend(q, k, v):
    def part(queries):
        return jax.nn.softmax(queries @ k.T) @ v

    return lax.map(part, q.reshape(16, 32, 16)).reshape(q.shape)
""",
    wrong=(
        WrongAnswer(
            """\
def attend(q, k, v):
    part = lambda queries: jax.nn.softmax(queries @ k.T) @ v
    return jax.vmap(part)(q.reshape(16, 32, 16)).reshape(q.shape)
""",
            "vmap would do all parts at once",
        ),
        WrongAnswer(
            """\
def attend(q, k, v):
    parts = [jax.nn.softmax(queries @ k.T) @ v for queries in q.reshape(16, 32, 16)]
    return jnp.concatenate(parts)
""",
            "A Python loop is written out",
        ),
        WrongAnswer(
            """\
@jax.checkpoint
def attend(q, k, v):
    return jax.nn.softmax(q @ k.T) @ v
""",
            "the forward and the backward pass only",
        ),
        WrongAnswer(
            """\
def attend(q, k, v):
    part = lambda keys, values: jax.nn.softmax(q @ keys.T) @ values
    parts = lax.map(lambda kv: part(*kv), (k.reshape(16, 32, 16), v.reshape(16, 32, 16)))
    return parts.mean(0)
""",
            "a softmax over **all** keys",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def attend(q, k, v):
    part = lambda queries: jax.nn.softmax(queries @ k.T) @ v
    return lax.map(part, q.reshape(2, 256, 16)).reshape(q.shape)
""",
            "make the parts smaller",
        ),
    ),
    hints=(
        "Run `%compile --memory attend(q, k, v)`: which values are as large as the scores?",
        "Cut the queries into parts. What makes the parts run one after the other?",
        "`lax.map` over `q.reshape(16, 32, 16)`: 16 turns of 32 queries.",
    ),
    check=check,
    after=(
        "A loop's turns share their scratch memory, so the peak is that of one part. With a "
        "running maximum the keys can be cut too: that is flash attention."
    ),
    backends=("cpu",),
    seconds=30.0,
)
