"""Puzzle 26.1."""

from typing import Any

import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Puzzle,
    WrongAnswer,
    at_least,
    at_most,
    close,
)


def check(prepare: Function) -> Facts:
    import jax.numpy as jnp

    def wave(x: Any) -> Any:  # made anew in every check, so no cache holds it
        return jnp.sin(x) * 2

    with jaxlens.recompiles() as start:
        serve = prepare(wave)
    name = type(serve).__name__
    hint = "It still waits for its compile." if name == "Lowered" else ""
    yield Fact("what prepare returns", "something to call", name, callable(serve), hint)
    requests = [np.full(8, k, np.float32) for k in range(3)]
    try:
        with jaxlens.recompiles() as serving:
            results = [serve(x) for x in requests]
    except TypeError as error:  # of a program for other types; the last line says which
        reason = str(error).splitlines()[-1]
        hint = "A compiled program takes only what it was compiled for."
        yield Fact("a request f32[8]", "served", f"TypeError ({reason})", False, hint)
        return
    yield close("the last result", results[-1], np.sin(requests[-1]) * 2)
    hint = "`jax.jit` alone compiles nothing: it waits for a call."
    yield at_least("compiles in prepare", start.compiles, 1, hint=hint, evidence=lambda: serving)
    hint = "The program that `prepare` compiled is not the one that served the requests."
    made = serving.compiles + serving.operations
    yield at_most("compiles when serving", made, 0, hint=hint, evidence=lambda: serving)


PUZZLE = Puzzle(
    id="26.1",
    title="Ready before the first request",
    task="""\
A server calls `prepare(f)` when it starts, and the result once for each request, with an
array `f32[8]`. With this `prepare` the first user waits for the compile. Change it so that `f`
is compiled **in `prepare`**, and no request compiles anything.
""",
    starter="""\
def prepare(f):
    return jax.jit(f)
""",
    solution="""\
def prepare(f):
    x = jax.ShapeDtypeStruct((8,), jnp.float32)
    return jax.jit(f).lower(x).compile()
""",
    wrong=(
        WrongAnswer(
            """\
def prepare(f):
    return jax.jit(f).lower(jax.ShapeDtypeStruct((8,), jnp.float32))
""",
            "waits for its compile",
        ),
        WrongAnswer(
            """\
def prepare(f):
    return jax.jit(f).lower(jax.ShapeDtypeStruct((4,), jnp.float32)).compile()
""",
            "takes only what it was compiled for",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def prepare(f):
    jax.jit(f).lower(jax.ShapeDtypeStruct((8,), jnp.float32)).compile()
    return f
""",
            "compiles when serving",
        ),
    ),
    hints=(
        "Run `%%recompiles` above a call of what `prepare` returns: the compile is in the call.",
        "A jitted function has `.lower(...)`, and what that returns has a method too.",
        "`jax.jit(f).lower(x).compile()`, where `x` is a shape and a dtype and no data.",
    ),
    check=check,
    after="The same work, done at a time that you choose.",
)
